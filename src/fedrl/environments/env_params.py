"""Parameters and environments that belong together: each of our environments takes the parameters of its own module only."""

import sys
from typing import Any

import numpy as np

from fedrl.arguments.fits import is_factory
from fedrl.arguments.messages import usage
from fedrl.environments.checks import warn_of_sizes
from fedrl.environments.tabular import finite

OWN = {  # the module of an environment -> the class of its parameters, and how to make some
    "fedrl.environments.tabular.finite": (
        "MDP",
        "finite MDPs: [MDP(kernel, reward, start), …], or random_mdp.dense(4, 3, 0.5)",
    ),
    "fedrl.environments.control.cart_pole": ("CartPole", 'cart_pole.evenly(3, "half_length", 0.3, 0.7)'),
    "fedrl.environments.control.mountain_car": ("MountainCar", 'mountain_car.shifts("low", 3)'),
}


def refuse_uncalled(env_params: Any) -> None:
    """Refuse a function that builds parameters, where its result was expected."""
    if is_factory(env_params):
        raise TypeError(
            f"env_params={env_params.__name__} is not called; write env_params={usage(env_params)} with its settings"
        )


def check_kind(environment: Any, env_params: Any) -> None:
    """Refuse `env_params` (one or a stack, arrays or shapes) that belong to another environment."""
    made_by = getattr(getattr(environment, "step", None), "__module__", "")
    if made_by not in OWN:
        return
    name, example = OWN[made_by]
    if not isinstance(env_params, getattr(sys.modules[made_by], name)):
        raise TypeError(
            f"this environment needs env_params of type {name}, got {_type_name(env_params)}; pass {example}, or the "
            "environment that these parameters belong to"
        )


def check_drawn_shapes(env_params: finite.MDP) -> None:
    """Refuse one drawn MDP whose shapes do not match."""
    kernel, reward, start = (tuple(x.shape) for x in env_params)
    if len(kernel) != 3 or reward != kernel[:2] or start != kernel[2:] or kernel[0] != kernel[2]:
        raise ValueError(
            "env_params(key, client_id) must return one MDP with kernel [S, A, S], reward [S, A] and start [S], "
            f"got {kernel}, {reward} and {start}; fix the shapes"
        )


def check_drawn_values(env_params: Any) -> None:
    """Refuse drawn MDPs [seeds, clients, ...] whose rows are not distributions, looking at the first seed only."""
    if isinstance(env_params, finite.MDP):
        first = finite.check(finite.MDP(*(np.asarray(x)[0] for x in env_params)))
        warn_of_sizes(np.asarray(first.reward))


def _type_name(env_params: Any) -> str:
    kind = type(env_params).__name__
    if isinstance(env_params, list | tuple) and not hasattr(env_params, "_fields") and env_params:
        return f"a {kind} of {type(env_params[0]).__name__}"
    return f"an array of shape {env_params.shape}" if hasattr(env_params, "shape") else f"a {kind}"
