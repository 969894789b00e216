"""LLM agents trained together (paper 002, FedAgent): their tasks, policies and training; nothing else imports this."""

import os

# before torch is imported: threads that wait sleep instead of spinning, which on a busy machine costs many times over
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
