"""Tsallis actor-critic as a local learner: a policy gradient with a bonus for Tsallis entropy."""

from typing import Literal

import jax.numpy as jnp
import optax
from jax import Array

from fedrl.arguments import above, at_least, checked
from fedrl.keys import Key
from fedrl.learners.actor_critic import actor_critic
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.improvement import Batch, Improvement, surrogate
from fedrl.learners.minibatches import descend
from fedrl.learners.optimizers import Schedule, adam, as_schedule
from fedrl.learners.reports import aside
from fedrl.trees import Tree
from fedrl.types import BuildLearner, BuildPolicy, Metrics, Policy


@checked
def tac(
    *,
    q: float = 1.5,
    alpha: Schedule | float = 0.01,
    optimizer: optax.GradientTransformation = adam(clip=0.5),
    learning_rate: Schedule | float = 1e-3,
    epochs: int = 1,
    minibatch: int = 64,
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
    """TAC (Lee et al. 2019) on the batch just rolled out: ascends mean(rho A) + alpha mean(S_q(pi(.|s))).

    `q` is the entropic index: 1 gives Shannon's entropy and thus the usual actor-critic, 2 the sparse one. rho is one at
    the first minibatch and then corrects for the updates of the earlier ones. `alpha` and `learning_rate` are numbers, or
    schedules by round; `ActorCritic` explains the settings from `policy` on.

    Unlike the paper, whose critics learn from a replay buffer and count the entropy of all later steps, this is the
    on-policy form: a drop-in for PPO, as Xu et al. 2024 (Fig. 6f) use it.

    Reports policy_loss (of the surrogate alone), tsallis_entropy and kl on the whole batch, and the metrics of all
    actor-critics.
    """
    above(0, "it is the entropic index, and between 1 and 2 is usual", q=q)
    at_least(0, epochs=epochs)
    at_least(1, minibatch=minibatch)
    learning_rate_at, alpha_at = as_schedule("learning_rate", learning_rate), as_schedule("alpha", alpha)
    settings = ActorCritic(
        policy=policy, value=value, value_last=value_last, steps=steps, num_envs=num_envs, local_steps=local_steps,
        critic_optimizer=critic_optimizer, critic_learning_rate=critic_learning_rate, critic_epochs=critic_epochs,
        critic_minibatch=critic_minibatch, gae_lambda=gae_lambda, filter_observations=filter_observations,
        filter_rewards=filter_rewards, filters=filters, bootstrap=bootstrap, warm_up=warm_up, remember=remember,
    )  # fmt: skip

    def improvement(policy: Policy) -> Improvement:
        return _surrogate_ascent(policy, q, alpha_at, optimizer, learning_rate_at, epochs=epochs, minibatch=minibatch)

    return actor_critic(improvement, settings)


def _surrogate_ascent(
    policy: Policy,
    q: float,
    alpha_at: Schedule,
    optimizer: optax.GradientTransformation,
    learning_rate_at: Schedule,
    *,
    epochs: int,
    minibatch: int,
) -> Improvement:
    """Ascend the surrogate and the Tsallis entropy, minibatch by minibatch."""
    if not policy.tsallis:
        raise ValueError("TAC needs a policy with closed-form Tsallis entropies; use fedrl.policies.mlp")
    tsallis = policy.tsallis

    def improve(
        actor: Tree, state: optax.OptState, batch: Batch, round: Array, key: Key
    ) -> tuple[Tree, optax.OptState, Metrics]:
        def loss(new: Tree, rows: Batch) -> Array:
            return -surrogate(policy, new, rows) - alpha_at(round) * jnp.mean(tsallis(new, rows.obs, q))

        new, after = descend(
            loss, actor, state, batch, key,
            optimizer=optimizer, learning_rate=learning_rate_at(round), epochs=epochs, minibatch=minibatch,
        )  # fmt: skip
        return new, after, report(policy, q, *aside((actor, new, batch)))

    return Improvement(optimizer.init, improve, reports(policy))


def reports(policy: Policy) -> tuple[str, ...]:
    """The names of the metrics: kl only if the policy has one in closed form."""
    return ("policy_loss", "tsallis_entropy", *(["kl"] if policy.kl else []))


def report(policy: Policy, q: float, old: Tree, new: Tree, batch: Batch) -> Metrics:
    """Minus the mean of rho A, the new actor's mean S_q and the mean KL(old || new), on the whole batch."""
    assert policy.tsallis
    metrics = {
        "policy_loss": -surrogate(policy, new, batch),
        "tsallis_entropy": jnp.mean(policy.tsallis(new, batch.obs, q)),
    }
    return metrics | ({"kl": jnp.mean(policy.kl(old, new, batch.obs))} if policy.kl else {})
