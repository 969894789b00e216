"""The core: one client's steps, one round, the shapes of an exchange. Read `round.py`, then `client.py`."""
