"""Proximal policy optimisation as a local learner: the actor climbs a clipped or penalised surrogate (`trust`)."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import optax
from jax import Array

from fedrl.arguments import at_least, checked
from fedrl.keys import Key
from fedrl.learners import surrogates as trusts
from fedrl.learners.actor_critic import actor_critic
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.improvement import Batch, Improvement, ratio
from fedrl.learners.minibatches import descend
from fedrl.learners.optimizers import Schedule, adam, as_schedule
from fedrl.learners.reports import aside
from fedrl.trees import Tree
from fedrl.types import BuildLearner, BuildPolicy, Metrics, Policy


class PPOState(NamedTuple):
    """The state that improving the actor keeps between iterations."""

    optimizer: Any  # its state
    beta: Array  # penalty coefficient


REPORTS = ("policy_loss", "kl", "clip_share", "entropy")


@checked
def ppo(
    *,
    trust: trusts.Trust = trusts.clipped(0.2),
    optimizer: optax.GradientTransformation = adam(clip=0.5),
    learning_rate: Schedule | float = 3e-4,
    epochs: int = 10,
    minibatch: int = 64,
    entropy: Schedule | float = 0.0,
    policy: BuildPolicy = ActorCritic.policy,
    value: tuple[int, ...] = ActorCritic.value,
    value_last: float = ActorCritic.value_last,
    steps: int = ActorCritic.steps,
    num_envs: int = ActorCritic.num_envs,
    local_steps: int = ActorCritic.local_steps,
    critic_optimizer: optax.GradientTransformation = ActorCritic.critic_optimizer,
    critic_learning_rate: float = ActorCritic.critic_learning_rate,
    critic_epochs: int = ActorCritic.critic_epochs,
    critic_minibatch: int = ActorCritic.critic_minibatch,
    gae_lambda: float = ActorCritic.gae_lambda,
    filter_observations: bool = ActorCritic.filter_observations,
    filter_rewards: bool = ActorCritic.filter_rewards,
    filters: Literal["pooled", "own"] = ActorCritic.filters,
    bootstrap: bool = ActorCritic.bootstrap,
    warm_up: int = ActorCritic.warm_up,
    remember: int = ActorCritic.remember,
) -> BuildLearner:
    """PPO (Schulman et al. 2017): `epochs` passes over the batch, minibatch by minibatch; epochs=0 only fits V.

    `trust` says how far one batch may move the policy; `learning_rate` (the actor's step size) and `entropy` (coefficient
    of the bonus) are numbers, or schedules by round (`learners/optimizers.py`). `optimizer` must not scale by a step size
    of its own: use `adam()` of `learners/optimizers.py`, not `optax.adam(1e-3)`. `ActorCritic` explains the settings from
    `policy` on. The defaults are those of common PPO; those of xie2025 are in `recipes/xie2025`.

    Reports policy_loss, kl, clip_share and entropy (`report`), and the metrics of all actor-critics: value_loss,
    explained_variance, episode_return and episode_length; the last two are NaN, hence not reported, if no episode ended.
    """
    at_least(0, epochs=epochs)
    at_least(1, minibatch=minibatch)
    learning_rate_at, entropy_at = as_schedule("learning_rate", learning_rate), as_schedule("entropy", entropy)
    settings = ActorCritic(
        policy=policy, value=value, value_last=value_last, steps=steps, num_envs=num_envs, local_steps=local_steps,
        critic_optimizer=critic_optimizer, critic_learning_rate=critic_learning_rate, critic_epochs=critic_epochs,
        critic_minibatch=critic_minibatch, gae_lambda=gae_lambda, filter_observations=filter_observations,
        filter_rewards=filter_rewards, filters=filters, bootstrap=bootstrap, warm_up=warm_up, remember=remember,
    )  # fmt: skip

    def improvement(policy: Policy) -> Improvement:
        return _surrogate_ascent(
            policy, trust, optimizer, learning_rate_at, entropy_at, epochs=epochs, minibatch=minibatch
        )

    return actor_critic(improvement, settings)


def _surrogate_ascent(
    policy: Policy,
    trust: trusts.Trust,
    optimizer: optax.GradientTransformation,
    learning_rate_at: Schedule,
    entropy_at: Schedule,
    *,
    epochs: int,
    minibatch: int,
) -> Improvement:
    """Ascend the surrogate and the entropy bonus, minibatch by minibatch."""
    if not (policy.kl and policy.entropy):
        raise ValueError("PPO needs a policy with closed-form KL and entropy; use fedrl.policies.mlp")
    kl, shannon = policy.kl, policy.entropy

    def improve(actor: Tree, state: PPOState, batch: Batch, round: Array, key: Key) -> tuple[Tree, PPOState, Metrics]:
        def loss(new: Tree, rows: Batch) -> Array:
            rho, divergence = ratio(policy, new, rows), kl(actor, new, rows.obs)
            gain = jnp.mean(trust.objective(rho, rows.advantage, divergence, state.beta))
            return -gain - entropy_at(round) * jnp.mean(shannon(new, rows.obs))

        new, optimizer_state = descend(
            loss, actor, state.optimizer, batch, key,
            optimizer=optimizer, learning_rate=learning_rate_at(round), epochs=epochs, minibatch=minibatch,
        )  # fmt: skip
        beta = trust.adapt(state.beta, jnp.mean(kl(actor, new, batch.obs)), jnp.max(batch.advantage))
        return new, PPOState(optimizer_state, beta), report(policy, trust, *aside((actor, new, state.beta, batch)))

    return Improvement(lambda actor: PPOState(optimizer.init(actor), jnp.ones(())), improve, REPORTS)


def report(policy: Policy, trust: trusts.Trust, old: Tree, new: Tree, beta: Array, batch: Batch) -> Metrics:
    """Compare the new actor with the old one on the whole batch.

    policy_loss is minus the surrogate, without the entropy bonus; kl is the mean KL(old || new); clip_share the share of
    ratios beyond the bounds of `trust`; entropy the new actor's mean.
    """
    assert policy.kl
    assert policy.entropy
    rho, divergence = ratio(policy, new, batch), policy.kl(old, new, batch.obs)
    clipped = (rho < trust.low) | (rho > trust.high)
    return {
        "policy_loss": -jnp.mean(trust.objective(rho, batch.advantage, divergence, beta)),
        "kl": jnp.mean(divergence),
        "clip_share": jnp.mean(clipped.astype(jnp.float32)),
        "entropy": jnp.mean(policy.entropy(new, batch.obs)),
    }
