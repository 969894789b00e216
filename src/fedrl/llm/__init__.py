"""Federated training of LLM agents (fedagent): their tasks, policies and training. Nothing else imports this package."""

import os

# before torch is imported: waiting threads sleep instead of spinning, which is many times slower on a busy machine
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
