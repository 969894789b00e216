"""How much likelier an actor makes what was chosen than the one who chose it: what all policy improvements climb."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from fedrl.learners.actor_critic_records import Batch
from fedrl.trees import Tree
from fedrl.types import Policy


def log_likelihood(policy: Policy, actor: Tree, obs: Any, choice: Any) -> Array:
    return jnp.sum(policy.log_probs(actor, obs, choice), axis=-1)


def ratio(policy: Policy, actor: Tree, batch: Batch) -> Array:
    """rho: how much likelier the actor makes each choice of the batch than the one who made it."""
    return jnp.exp(log_likelihood(policy, actor, batch.obs, batch.choice) - batch.log_prob)


def surrogate(policy: Policy, actor: Tree, batch: Batch) -> Array:
    """Mean of rho A; its gradient where rho is one is the policy gradient (Schulman et al. 2015, Eq. 14)."""
    return jnp.mean(ratio(policy, actor, batch) * batch.advantage)
