"""Household tasks in text, the ALFWorld half of FedAgentGym (paper 002 §3): games, two players of them, an environment."""
