"""fedrl: federated reinforcement learning across clients whose environments differ.

    federation = fedrl.gymnasium("CartPole-v1", clients=8)                 # where the clients live
    method = fedrl.algorithms.fedavg(fedrl.learners.ppo())                 # how they learn together
    run = fedrl.train(method, federation, rounds=50, out="runs/poles")     # log, checkpoints, policy
    policy = fedrl.load("runs/poles").policy()                             # policy(observation) -> action

What a user writes is here and in the packages listed in `dir(fedrl)`; the files below them are private and may move.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrl import (
        aggregation,
        algorithms,
        channels,
        engines,
        environments,
        evaluation,
        experiments,
        faults,
        learners,
        llm,
        policies,
        recipes,
        selection,
        theory,
        types,
    )
    from fedrl.experiments.personalisation import personalise
    from fedrl.experiments.restore import load
    from fedrl.federations.federation import Federation
    from fedrl.federations.gymnasium_envs import gymnasium
    from fedrl.federations.osm import federation as road_networks
    from fedrl.federations.pettingzoo_envs import pettingzoo
    from fedrl.finished_run import Run
    from fedrl.training import train

    __version__: str

__all__ = [
    "Federation",
    "Run",
    "__version__",
    "aggregation",
    "algorithms",
    "channels",
    "engines",
    "environments",
    "evaluation",
    "experiments",
    "faults",
    "gymnasium",
    "learners",
    "llm",
    "load",
    "personalise",
    "pettingzoo",
    "policies",
    "recipes",
    "road_networks",
    "selection",
    "theory",
    "train",
    "types",
]

_HOME = {
    "Federation": "fedrl.federations.federation:Federation",
    "Run": "fedrl.finished_run:Run",
    "gymnasium": "fedrl.federations.gymnasium_envs:gymnasium",
    "load": "fedrl.experiments.restore:load",
    "personalise": "fedrl.experiments.personalisation:personalise",
    "pettingzoo": "fedrl.federations.pettingzoo_envs:pettingzoo",
    "road_networks": "fedrl.federations.osm:federation",
    "train": "fedrl.training:train",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import fedrl` and `fedrl --help` do not wait for JAX."""
    if name == "__version__":
        from importlib.metadata import version

        return version("fedrl")
    if name in _HOME:
        module, _, item = _HOME[name].partition(":")
        return getattr(import_module(module), item)
    if name in __all__:
        return import_module(f"fedrl.{name}")
    raise AttributeError(f"module 'fedrl' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
