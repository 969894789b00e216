"""FAPI with networks: Algorithms 1 and 2 of Xie & Song 2025, evaluated and improved by the two halves of PPO."""

from functools import partial
from typing import Literal

import optax

from fedrl.aggregation.mean import mean
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.federated import Project, federated
from fedrl.algorithms.server_rules import Phase, ServerRule, adding
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.federations.federation import Federation, Method
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.optimizers import Schedule, adam
from fedrl.learners.own_critic import own_critic
from fedrl.learners.ppo import ppo
from fedrl.learners.surrogates import Trust, clipped
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.types import BuildPolicy, Channel, Combine, Learner


@checked
def deep_fapi_with_federated_evaluation(
    *,
    evaluators: BuildSelection = everyone(),
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
    trust: Trust = clipped(0.2),
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
) -> Method:
    """Algorithm 1: the critics fitted to pi^t are averaged to V^t, against which the clients then improve pi^t.

    The settings from `trust` on are those of `ppo`. Each of its iterations acts anew, so a round takes twice the environment
    steps of Algorithm 2.
    """
    learner = partial(
        ppo,
        trust=trust, optimizer=optimizer, learning_rate=learning_rate, minibatch=minibatch, entropy=entropy,
        policy=policy, value=value, value_last=value_last, steps=steps, num_envs=num_envs, local_steps=local_steps,
        critic_optimizer=critic_optimizer, critic_learning_rate=critic_learning_rate, critic_minibatch=critic_minibatch,
        gae_lambda=gae_lambda, filter_observations=filter_observations, filter_rewards=filter_rewards, filters=filters,
        bootstrap=bootstrap, warm_up=warm_up, remember=remember,
    )  # fmt: skip
    evaluate, improve = learner(epochs=0, critic_epochs=critic_epochs), learner(epochs=epochs, critic_epochs=0)

    def rule(federation: Federation, learner: Learner) -> ServerRule:
        add = adding(learner)
        evaluating = evaluate(federation.environment).local
        return ServerRule(add, before=(Phase("evaluate-policy", evaluating, add, evaluators),))

    return federated(rule, improve, selection=selection, combine=combine, channel=channel, project=project)


@checked
def deep_fapi_without_federated_evaluation(
    *,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
    trust: Trust = clipped(0.2),
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
) -> Method:
    """Algorithm 2: each client fits a V_n of its own, which never travels, and improves against it.

    The settings from `trust` on are those of `ppo`.
    """
    learner = ppo(
        epochs=epochs, critic_epochs=critic_epochs,
        trust=trust, optimizer=optimizer, learning_rate=learning_rate, minibatch=minibatch, entropy=entropy,
        policy=policy, value=value, value_last=value_last, steps=steps, num_envs=num_envs, local_steps=local_steps,
        critic_optimizer=critic_optimizer, critic_learning_rate=critic_learning_rate, critic_minibatch=critic_minibatch,
        gae_lambda=gae_lambda, filter_observations=filter_observations, filter_rewards=filter_rewards, filters=filters,
        bootstrap=bootstrap, warm_up=warm_up, remember=remember,
    )  # fmt: skip
    return fedavg(own_critic(learner), selection=selection, combine=combine, channel=channel, project=project)
