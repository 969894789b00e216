"""Worlds and environments that belong together: an environment of this package runs worlds of its own module only."""

import sys
from typing import Any

import numpy as np

from fedrl.arguments.fits import is_factory
from fedrl.arguments.messages import usage
from fedrl.environments.checks import warn_of_sizes
from fedrl.environments.tabular import finite

OWN = {  # the module of an environment -> its worlds, and how one has them
    "fedrl.environments.tabular.finite": (
        "MDP",
        "finite MDPs: [MDP(kernel, reward, start), …], or random_mdp.dense(4, 3, 0.5)",
    ),
    "fedrl.environments.control.cart_pole": ("CartPole", 'cart_pole.evenly(3, "half_length", 0.3, 0.7)'),
    "fedrl.environments.control.mountain_car": ("MountainCar", 'mountain_car.shifts("low", 3)'),
}


def refuse_uncalled(env_params: Any) -> None:
    """A function that builds worlds, where what it builds is wanted."""
    if is_factory(env_params):
        raise TypeError(
            f"env_params={env_params.__name__} is not called; write env_params={usage(env_params)} with its settings"
        )


def check_kind(environment: Any, env_params: Any) -> None:
    """Refuse `env_params` (one, or a stack, of arrays or of their shapes) where the environment runs others."""
    made_by = getattr(getattr(environment, "step", None), "__module__", "")
    if made_by not in OWN:
        return
    name, such_as = OWN[made_by]
    if not isinstance(env_params, getattr(sys.modules[made_by], name)):
        raise TypeError(
            f"this environment's worlds are of the kind {name}, got {_named(env_params)}; give {such_as}, or the environment "
            "that belongs to these worlds"
        )


def check_drawn(env_params: finite.MDP) -> None:
    """Refuse the shapes of one drawn MDP that do not belong together."""
    kernel, reward, start = (tuple(x.shape) for x in env_params)
    if len(kernel) != 3 or reward != kernel[:2] or start != kernel[2:] or kernel[0] != kernel[2]:
        raise ValueError(
            f"worlds(key, client_id) must return one MDP with kernel [S, A, S], reward [S, A] and start [S], got {kernel}, "
            f"{reward} and {start}; mend the arrays"
        )


def check_held(env_params: Any) -> None:
    """Refuse drawn MDPs [seeds, clients, ...] that are none, looking at those of the first seed."""
    if isinstance(env_params, finite.MDP):
        first = finite.check(finite.MDP(*(np.asarray(x)[0] for x in env_params)))
        warn_of_sizes(np.asarray(first.reward))


def _named(env_params: Any) -> str:
    kind = type(env_params).__name__
    if isinstance(env_params, list | tuple) and not hasattr(env_params, "_fields") and env_params:
        return f"a {kind} of {type(env_params[0]).__name__}"
    return f"an array of shape {env_params.shape}" if hasattr(env_params, "shape") else f"a {kind}"
