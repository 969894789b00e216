"""LLM agents trained together (paper 002, FedAgent): their tasks, policies and training; nothing else imports this."""
