"""Proximal policy optimisation as a local learner: the actor climbs a clipped or penalised surrogate (`trust`)."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import optax
from jax import Array

from fedrl.arguments import at_least, checked
from fedrl.keys import Key
from fedrl.local import trust as trusts
from fedrl.local.actor_critic import actor_critic, ratio
from fedrl.local.actor_critic_records import ActorCritic, Batch, Improvement
from fedrl.local.learner import BuildLearner
from fedrl.local.minibatches import descend
from fedrl.local.steps import Rate, adam, as_rate
from fedrl.trees import Tree
from fedrl.types import BuildPolicy, Policy


class Kept(NamedTuple):
    optimiser: Any  # its state
    beta: Array  # penalty coefficient


@checked
def ppo(
    *,
    trust: trusts.Trust = trusts.clipped(0.2),
    optimiser: optax.GradientTransformation = adam(clip=0.5),
    rate: Rate | float = 3e-4,
    epochs: int = 10,
    minibatch: int = 64,
    entropy: Rate | float = 0.0,
    policy: BuildPolicy = ActorCritic.policy,
    value: tuple[int, ...] = ActorCritic.value,
    steps: int = ActorCritic.steps,
    copies: int = ActorCritic.copies,
    local_steps: int = ActorCritic.local_steps,
    critic_rate: float = ActorCritic.critic_rate,
    critic_epochs: int = ActorCritic.critic_epochs,
    critic_minibatch: int = ActorCritic.critic_minibatch,
    lam: float = ActorCritic.lam,
    filter_observations: bool = ActorCritic.filter_observations,
    filter_rewards: bool = ActorCritic.filter_rewards,
    filters: Literal["pooled", "own"] = ActorCritic.filters,
    bootstrap: bool = ActorCritic.bootstrap,
    warm_up: int = ActorCritic.warm_up,
    remember: int = ActorCritic.remember,
) -> BuildLearner:
    """PPO (Schulman et al. 2017): `epochs` passes over the batch, minibatch by minibatch; epochs=0 only fits V.

    `trust` says how far one batch may move the policy; `rate` (the actor's step size) and `entropy` (coefficient of the
    bonus) are numbers, or schedules by round (`local/steps.py`). `optimiser` has no rate of its own: `steps.adam()`, not
    `optax.adam(1e-3)`. The settings from `policy` on are explained in `ActorCritic`. The defaults are those of common PPO;
    those of Xie & Song 2025 are in `recipes/xie2025`.
    """
    at_least(0, epochs=epochs)
    at_least(1, minibatch=minibatch)
    rate_at, entropy_at = as_rate("rate", rate), as_rate("entropy", entropy)
    settings = ActorCritic(
        policy=policy, value=value, steps=steps, copies=copies, local_steps=local_steps, critic_rate=critic_rate,
        critic_epochs=critic_epochs, critic_minibatch=critic_minibatch, lam=lam, filter_observations=filter_observations,
        filter_rewards=filter_rewards, filters=filters, bootstrap=bootstrap, warm_up=warm_up, remember=remember,
    )  # fmt: skip

    def improvement(policy: Policy) -> Improvement:
        if not (policy.kl and policy.entropy):
            raise ValueError("PPO wants a policy with closed-form KL and entropy; use fedrl.policies.mlp")
        kl, shannon = policy.kl, policy.entropy

        def improve(actor: Tree, kept: Kept, batch: Batch, round: Array, key: Key) -> tuple[Tree, Kept]:
            def loss(new: Tree, rows: Batch) -> Array:
                rho, moved = ratio(policy, new, rows), kl(actor, new, rows.obs)
                gain = jnp.mean(trust.objective(rho, rows.advantage, moved, kept.beta))
                return -gain - entropy_at(round) * jnp.mean(shannon(new, rows.obs))

            new, state = descend(
                loss, actor, kept.optimiser, batch, key,
                optimiser=optimiser, rate=rate_at(round), epochs=epochs, minibatch=minibatch,
            )  # fmt: skip
            beta = trust.adapt(kept.beta, jnp.mean(kl(actor, new, batch.obs)), jnp.max(batch.advantage))
            return new, Kept(state, beta)

        return Improvement(lambda actor: Kept(optimiser.init(actor), jnp.ones(())), improve)

    return actor_critic(improvement, settings)
