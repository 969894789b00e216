"""Household tasks in text, the ALFWorld half of FedAgentGym (fedagent §3): games, two players of them, an environment."""
