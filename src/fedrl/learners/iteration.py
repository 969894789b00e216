"""One iteration of an actor-critic, in the order it happens: advantages of a roll-out, fit V, improve pi, move the filters.

`learn_from` is the whole of it; the functions below it are its steps.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Environment, Host
from fedrl.keys import Key
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.advantage import HANDFUL, gae, standardised, values_after
from fedrl.learners.filtering import Filtering, Theta
from fedrl.learners.improvement import Batch, Improvement, log_likelihood
from fedrl.learners.minibatches import descend, mean_square, rows
from fedrl.learners.reports import EPISODES, Report, added, aside, critic_fit, ended_episodes, measured
from fedrl.policies import network
from fedrl.policies.filtered import Filters, merge_filters
from fedrl.rollouts.episodes import env_steps
from fedrl.types import Client, Policy, Trajectory

REPORTS = ("value_loss", "explained_variance", *EPISODES)  # beside those of the improvement


class Memory(NamedTuple):
    """What a client keeps."""

    filters: Filters  # empty if they are pooled
    actor: Any  # state of the actor's improvement, kept between iterations
    critic: optax.OptState
    recent: Any  # the last iterations as one Trajectory, oldest first; () if no selection needs them


class Iterate(NamedTuple):
    """A client in the middle of its local iterations."""

    theta: Theta
    memory: Memory
    message: Any
    env_steps: Array
    gathered: Filters  # statistics of its steps since the message, if filters are pooled
    report: Report  # of its iterations so far


class Parts(NamedTuple):
    """The parts of an actor-critic in its environment."""

    settings: ActorCritic
    environment: Environment | Host
    policy: Policy  # takes observations as the networks see them
    acting: Policy  # the same, for raw observations
    improvement: Improvement
    filters: Filtering
    standardises: bool  # observations; then `acting` is `filtered`

    @property
    def pooled(self) -> bool:
        return self.settings.filters == "pooled"

    @property
    def unit(self) -> float:
        """The critic's network returns V multiplied by this, 1 - gamma, which is on the scale of one reward."""
        return max(1.0 - self.environment.gamma, 1e-3)


def learn_from(parts: Parts, local: Iterate, trajectory: Trajectory, client: Client, key: Key) -> tuple[Theta, Iterate]:
    """One iteration; the direction is how far it moved actor and critic."""
    theta, memory = local.theta, local.memory
    batch = batch_of(parts, theta, client._replace(memory=memory), trajectory)
    critic, critic_state = fit(parts, theta.critic, memory.critic, batch, keys.of(key, "critic"))
    normalised_batch = batch._replace(advantage=standardised(batch.advantage))
    actor, actor_state, scalars = parts.improvement.improve(
        theta.actor, memory.actor, normalised_batch, local.message.round, keys.of(key, "actor")
    )
    after = after_seeing(parts, local, trajectory)
    after = after._replace(
        memory=after.memory._replace(actor=actor_state, critic=critic_state),
        report=added(local.report, measured(scalars) | report(parts, theta.critic, critic, batch, trajectory)),
    )
    return trees.subtract(Theta(actor, critic), theta._replace(filters=Filters())), after


def batch_of(parts: Parts, theta: Theta, client: Client, trajectory: Trajectory) -> Batch:
    """The roll-out as samples: filtered, with advantages from the critic."""
    trajectory = parts.filters.look(filters_of(parts, theta, client), trajectory)
    advantage, value = advantages(parts, theta, trajectory)
    log_prob = log_likelihood(parts.policy, theta.actor, trajectory.obs, trajectory.choice)
    return Batch(*rows((trajectory.obs, trajectory.choice, log_prob, advantage, advantage + value)))


def advantages(parts: Parts, theta: Theta, trajectory: Trajectory) -> tuple[Array, Array]:
    """Advantages and values of a filtered roll-out."""
    s = parts.settings
    value = values(parts, theta.critic, trajectory.obs)
    value_after = values_after(
        trajectory, value, lambda obs: values(parts, theta.critic, obs) if s.bootstrap else jnp.zeros(HANDFUL)
    )
    return gae(
        trajectory, trajectory.reward, value, value_after, gamma=parts.environment.gamma, gae_lambda=s.gae_lambda
    ), value


def values(parts: Parts, critic: network.Layers, obs: Any) -> Array:
    _, lay_out = network.inputs(parts.environment.observations)
    output: Array = network.forward(critic, lay_out(obs))[..., 0]
    return output / parts.unit


def fit(
    parts: Parts, critic: network.Layers, state: optax.OptState, batch: Batch, key: Key
) -> tuple[network.Layers, optax.OptState]:
    """Fit V to the targets, which are advantage plus value."""
    s = parts.settings
    return descend(
        lambda critic, rows: mean_square(parts.unit * (values(parts, critic, rows.obs) - rows.target)),
        critic, state, batch, key,
        optimizer=s.critic_optimizer, learning_rate=s.critic_learning_rate, epochs=s.critic_epochs,
        minibatch=s.critic_minibatch,
    )  # fmt: skip


def after_seeing(parts: Parts, local: Iterate, trajectory: Trajectory) -> Iterate:
    """Update the filters, replace the oldest remembered iteration and count the steps."""
    s, theta, memory, gathered = parts.settings, local.theta, local.memory, local.gathered
    if s.remember:
        recent = jax.tree.map(lambda old, new: jnp.concatenate([old, new])[s.num_envs :], memory.recent, trajectory)
        memory = memory._replace(recent=recent)
    if parts.pooled:
        gathered = parts.filters.update(gathered, trajectory)
        theta = theta._replace(filters=merge_filters(local.message.theta.filters, gathered))
    else:
        memory = memory._replace(filters=parts.filters.update(memory.filters, trajectory))
    return local._replace(
        theta=theta, memory=memory, env_steps=local.env_steps + env_steps(trajectory), gathered=gathered
    )


def filters_of(parts: Parts, theta: Theta, client: Client) -> Filters:
    return theta.filters if parts.pooled else client.memory.filters


def report(parts: Parts, old: network.Layers, new: network.Layers, batch: Batch, trajectory: Trajectory) -> Report:
    """The metrics of an iteration that all actor-critics report: how well V fits, and which episodes ended.

    The old V is computed again, although it equals target minus advantage: reusing the advantages would need a barrier
    around them, and that changed the last bits of the actor, which learns from them after standardisation.
    """
    old, new, obs, target, trajectory = aside((old, new, batch.obs, batch.target, trajectory))
    fit_metrics = critic_fit(target, *(values(parts, critic, obs) for critic in (old, new)), unit=parts.unit)
    return measured(fit_metrics) | ended_episodes(trajectory, goes_on=bool(parts.environment.agents))
