"""A policy without its noise, for evaluation."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedrl.trees import Tree
from fedrl.types import Policy


def deterministic(policy: Policy) -> Policy:
    """`policy` taking its most likely choice: the first of the largest probabilities, the mean of a Gaussian.

    A policy that always takes one choice anyway (a greedy table) stays as it is.
    """
    if not policy.mode:
        raise ValueError(
            "deterministic=True needs a policy with a most likely action, and this one has none (language agents act by "
            "whole episodes); leave deterministic=True out"
        )
    mode, on_host = policy.mode, policy.host

    def host(theta: Tree, obs: np.ndarray, noise: Any) -> tuple[Any, Any]:
        assert on_host
        return on_host(theta, obs, None)

    return policy._replace(
        prepare=lambda theta: theta,
        noise=lambda key, shape: jnp.zeros(shape),
        sample=lambda theta, obs, noise: mode(theta, obs),
        host=host if on_host else None,
        hold=1,
    )
