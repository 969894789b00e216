"""The frame of the on-policy actor-critics: one local step is one iteration (roll out, fit V, improve pi: `iteration.py`).

Clients share the actor, the critic and the statistics that standardise what the networks see (`filtering.py`). Optimiser
states, and any other state of the actor's improvement, stay in the client's memory. With filters="own" the statistics stay
there too, as in the published code of Xie & Song 2025.

In addition to the metrics of its improvement, every actor-critic reports value_loss (the critic's loss on the whole batch
after the fit), explained_variance (of the targets by V before the fit), and episode_return and episode_length of the
episodes that ended in the roll-outs, unfiltered and undiscounted. If none ended, these two are NaN and are not reported. A
client reports means over its iterations, and for episodes means over all that ended in them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Box, Environment, Host
from fedrl.keys import Key
from fedrl.learners import iteration
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.filtering import Theta, filtering, pooling
from fedrl.learners.improvement import BuildImprovement, log_likelihood, surrogate
from fedrl.learners.iteration import REPORTS, Iterate, Memory, Parts, filters_of
from fedrl.learners.reports import means, nothing
from fedrl.policies import network
from fedrl.policies.filtered import Filtered, Filters, filtered
from fedrl.rollouts.episodes import shapes
from fedrl.rollouts.sampling import Sampling, make_sampler
from fedrl.trees import Tree
from fedrl.types import BuildLearner, Client, Learner, LocalUpdate, Mode, Trajectory


def actor_critic(improvement: BuildImprovement, settings: ActorCritic) -> BuildLearner:
    """The learner whose actor is improved by `improvement`: `ppo`, `trpo` and `tac` each pass their own."""

    def build(environment: Environment | Host) -> Learner:
        parts = _parts(improvement, settings, environment)
        sampling = make_sampler(
            environment,
            parts.acting,
            lambda local, client: _acts_with(parts, local.theta, client._replace(memory=local.memory)),
            horizon=_horizon(settings),
            batch=settings.num_envs,
            restart=True,
        )
        local = _local_update(parts, sampling)
        learner = Learner(
            parts.acting,
            partial(_init, parts),
            local,
            memory=partial(_first_memory, parts),
            acts_with=partial(_acts_with, parts),
            log_pi=lambda theta, obs, choice: log_likelihood(parts.policy, theta.actor, obs, choice),
            opening=(_warm_up(parts, local),) if settings.warm_up else (),
            init_shared_state=sampling.init_shared_state,
            pooling=pooling,
        )
        return _with_selection_inputs(parts, learner) if settings.remember else learner

    return build


def _parts(improvement: BuildImprovement, settings: ActorCritic, environment: Environment | Host) -> Parts:
    policy = settings.policy(environment)
    size, _ = network.inputs(environment.observations)
    standardises = settings.filter_observations and isinstance(environment.observations, Box)
    return Parts(
        settings,
        environment,
        policy,
        acting=filtered(policy) if standardises else policy,
        improvement=improvement(policy),
        filters=filtering(size, observations=standardises, rewards=settings.filter_rewards),
        standardises=standardises,
    )


def _horizon(settings: ActorCritic) -> int:
    return settings.steps // settings.num_envs


def _init(parts: Parts, key: Key) -> Theta:
    size, _ = network.inputs(parts.environment.observations)
    critic = network.init(keys.of(key, "critic"), (size, *parts.settings.value, 1), parts.settings.value_last)
    actor = parts.policy.init(keys.of(key, "actor"))
    return Theta(actor, critic, parts.filters.fresh() if parts.pooled else Filters())


def _acts_with(parts: Parts, theta: Theta, client: Client) -> Tree:
    return _acting_parameters(parts, filters_of(parts, theta, client), theta.actor)


def _acting_parameters(parts: Parts, filters: Filters, actor: Tree) -> Tree:
    """The parameters of the acting policy."""
    return Filtered(actor, filters.obs) if parts.standardises else actor


def _first_memory(parts: Parts, client_id: Array, key: Key) -> Memory:
    s, theta, filters = parts.settings, _init(parts, key), parts.filters.fresh()
    recent: Any = ()
    if s.remember:
        parameters = _acting_parameters(parts, filters, theta.actor)
        like = shapes(parts.environment, parts.acting, parameters, horizon=_horizon(s), batch=s.num_envs * s.remember)
        recent = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    states = parts.improvement.init(theta.actor), s.critic_optimizer.init(theta.critic)
    return Memory(Filters() if parts.pooled else filters, *states, recent)


def _local_update(parts: Parts, sampling: Sampling) -> LocalUpdate:
    def start(message: Any, client: Client, key: Key) -> Iterate:
        gathered = parts.filters.fresh() if parts.pooled else Filters()
        report = nothing((*parts.improvement.reports, *REPORTS))
        return Iterate(message.theta, client.memory, message, jnp.zeros((), jnp.int32), gathered, report)

    def apply(local: Iterate, direction: Theta, client: Client) -> Iterate:
        theta = trees.add(local.theta._replace(filters=Filters()), direction)
        return local._replace(theta=theta._replace(filters=local.theta.filters))

    def finish(local: Iterate, client: Client) -> tuple[Theta, Memory, Array]:
        theta_after, theta_before = (theta._replace(filters=Filters()) for theta in (local.theta, local.message.theta))
        return trees.subtract(theta_after, theta_before)._replace(filters=local.gathered), local.memory, local.env_steps

    settings = parts.settings
    return LocalUpdate(
        start,
        sampling.sample,
        partial(iteration.learn_from, parts),
        apply,
        finish,
        local_steps=settings.local_steps,
        mode=Mode.of(compiled=isinstance(parts.environment, Environment), shared_env=sampling.shared_env),
        most_env_steps=_horizon(settings) * settings.num_envs,
        metrics=lambda local, client: means(local.report),
    )


def _warm_up(parts: Parts, local: LocalUpdate) -> LocalUpdate:
    """`local` that only collects data: it fills filters and memory, moves no parameters and reports nothing."""
    return local._replace(
        estimate=lambda local, trajectory, client, key: ((), iteration.after_seeing(parts, local, trajectory)),
        apply=lambda local, direction, client: local,
        finish=lambda local, client: (Theta((), (), local.gathered), local.memory, local.env_steps),
        local_steps=-(-parts.settings.warm_up // parts.settings.steps),
        metrics=lambda local, client: {},
    )


def _with_selection_inputs(parts: Parts, learner: Learner) -> Learner:
    """`learner` with the functions that selections call on the iterations it remembers."""

    def recent(theta: Theta, client: Client) -> Trajectory:
        return parts.filters.look(filters_of(parts, theta, client), client.memory.recent)

    def advantages(theta: Theta, client: Client) -> Array:
        return iteration.advantages(parts, theta, recent(theta, client))[0]

    def loss(theta: Theta, client: Client) -> Array:
        """Minus the mean advantage at the current policy (ratio 1, KL 0); its gradient is the policy gradient's."""
        batch = iteration.batch_of(parts, jax.lax.stop_gradient(theta), client, client.memory.recent)
        return -surrogate(parts.policy, theta.actor, batch)

    return learner._replace(recent=recent, advantages=advantages, loss=loss)
