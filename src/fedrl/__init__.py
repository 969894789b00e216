"""fedrl: federated reinforcement learning across clients whose environments differ."""

from fedrl.federation import Federation
from fedrl.training import Run, train

__all__ = ["Federation", "Run", "train"]
