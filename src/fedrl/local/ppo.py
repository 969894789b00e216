"""Proximal policy optimisation as a local learner: the actor climbs a clipped or penalised surrogate (`trust`)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jax import Array

from fedrl.keys import Key
from fedrl.local import trust as trusts
from fedrl.local.actor_critic import actor_critic, ratio
from fedrl.local.actor_critic_records import ActorCritic, Batch, Improvement
from fedrl.local.learner import BuildLearner
from fedrl.local.minibatches import descend
from fedrl.local.steps import Rate, adam, constant
from fedrl.trees import Tree
from fedrl.types import Policy


class Kept(NamedTuple):
    optimiser: Any  # its state
    beta: Array  # penalty coefficient


def ppo(
    *,
    trust: trusts.Trust = trusts.clipped(0.2),
    optimiser: optax.GradientTransformation = adam(clip=0.5),
    rate: Rate = constant(3e-4),
    epochs: int = 10,
    minibatch: int = 64,
    entropy: Rate = constant(0.0),
    **settings: Any,
) -> BuildLearner:
    """PPO (Schulman et al. 2017): `epochs` passes over the batch, minibatch by minibatch; epochs=0 only fits V.

    `trust` says how far one batch may move the policy; `rate` (the actor's step size) and `entropy` (coefficient of the
    bonus) go by round. The other settings are those of `ActorCritic`: `ppo(steps=1024, rate=constant(1e-3))`. The defaults
    are those of common PPO; 004's are in `recipes/xie2025`.
    """

    def improvement(policy: Policy) -> Improvement:
        if not (policy.kl and policy.entropy):
            raise ValueError("PPO wants a policy with closed-form KL and entropy; use fedrl.policies.mlp")
        kl, shannon = policy.kl, policy.entropy

        def improve(actor: Tree, kept: Kept, batch: Batch, round: Array, key: Key) -> tuple[Tree, Kept]:
            def loss(new: Tree, rows: Batch) -> Array:
                rho, moved = ratio(policy, new, rows), kl(actor, new, rows.obs)
                gain = jnp.mean(trust.objective(rho, rows.advantage, moved, kept.beta))
                return -gain - entropy(round) * jnp.mean(shannon(new, rows.obs))

            new, state = descend(
                loss, actor, kept.optimiser, batch, key,
                optimiser=optimiser, rate=rate(round), epochs=epochs, minibatch=minibatch,
            )  # fmt: skip
            beta = trust.adapt(kept.beta, jnp.mean(kl(actor, new, batch.obs)), jnp.max(batch.advantage))
            return new, Kept(state, beta)

        return Improvement(lambda actor: Kept(optimiser.init(actor), jnp.ones(())), improve)

    return actor_critic(improvement, ActorCritic(**settings))
