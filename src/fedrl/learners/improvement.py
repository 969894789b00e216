"""How a batch improves an actor: the interface of `ppo`, `trpo` and `tac`, and the surrogate they all ascend."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Metrics, Policy


class Batch(NamedTuple):
    """The samples an improvement uses, flat over environments and time."""

    obs: Any  # as the networks see it
    choice: Any
    log_prob: Array
    advantage: Array
    target: Array  # of the critic


class InitState(Protocol):
    """The state that a client keeps for improving this actor, before the first iteration."""

    def __call__(self, actor: Tree, /) -> Any: ...


class Improve(Protocol):
    """One iteration: the next actor and state, and named scalars about the change."""

    def __call__(
        self, actor: Tree, state: Any, batch: Batch, round: Array, key: Key, /
    ) -> tuple[Tree, Any, Metrics]: ...


class Improvement(NamedTuple):
    """How one batch improves an actor; its advantages have mean zero and standard deviation one."""

    init: InitState
    improve: Improve
    reports: tuple[str, ...] = ()  # the names of the scalars that `improve` returns


BuildImprovement = Callable[[Policy], Improvement]


def log_likelihood(policy: Policy, actor: Tree, obs: Any, choice: Any) -> Array:
    return jnp.sum(policy.log_probs(actor, obs, choice), axis=-1)


def ratio(policy: Policy, actor: Tree, batch: Batch) -> Array:
    """rho: the probability of each choice of the batch under `actor`, divided by that under the actor that made it."""
    return jnp.exp(log_likelihood(policy, actor, batch.obs, batch.choice) - batch.log_prob)


def surrogate(policy: Policy, actor: Tree, batch: Batch) -> Array:
    """Mean of rho A; its gradient where rho is one is the policy gradient (Schulman et al. 2015, Eq. 14)."""
    return jnp.mean(ratio(policy, actor, batch) * batch.advantage)
