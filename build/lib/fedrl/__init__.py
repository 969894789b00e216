"""fedrl: federated reinforcement learning across clients whose environments differ."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrl.federations.federation import Federation
    from fedrl.federations.gymnasium_envs import gymnasium
    from fedrl.federations.pettingzoo_envs import pettingzoo
    from fedrl.finished_run import Run, load
    from fedrl.training import train

__all__ = ["Federation", "Run", "gymnasium", "load", "pettingzoo", "train"]

_HOME = {
    "Federation": "fedrl.federations.federation",
    "Run": "fedrl.finished_run",
    "gymnasium": "fedrl.federations.gymnasium_envs",
    "load": "fedrl.finished_run",
    "pettingzoo": "fedrl.federations.pettingzoo_envs",
    "train": "fedrl.training",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `fedrl --help` need not wait for JAX."""
    if name not in _HOME:
        raise AttributeError(f"module 'fedrl' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)
