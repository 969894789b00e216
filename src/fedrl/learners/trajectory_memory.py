"""A memory of the last trajectories for learners without a critic, so that selections can evaluate their clients."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.environments.protocol import Environment, Host
from fedrl.keys import Key
from fedrl.learners.advantage import gae
from fedrl.rollouts.episodes import shapes
from fedrl.trees import Tree
from fedrl.types import Client, Learner, LocalUpdate, Policy, Trajectory


class Remembering(NamedTuple):
    """A client in the middle of its local steps, and the trajectories it remembers."""

    local: Any
    recent: Trajectory  # the last ones, oldest first

    @property
    def message(self) -> Tree:
        return self.local.message


def remembering(
    learner: Learner, environment: Environment | Host, policy: Policy, *, horizon: int, batch: int, remember: int
) -> Learner:
    """`learner`, whose clients remember the `batch` episodes of each of their last `remember` local steps.

    `learner` keeps no other memory. Before the first round every client fills its memory with episodes under theta_0.
    Training stays the same to the bit: memories are only read by selections.
    """
    like = shapes(environment, policy, _theta_shapes(policy), horizon=horizon, batch=batch * remember)

    def empty(client_id: Array, key: Key) -> Trajectory:
        rows: Trajectory = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
        return rows

    def log_pi(theta: Tree, obs: Any, choice: Any) -> Array:
        return jnp.sum(policy.log_probs(theta, obs, choice), axis=-1)

    def advantages(theta: Tree, client: Client) -> Array:
        """Discounted rewards to go, minus their mean over the remembered steps, which replaces a critic."""
        recent: Trajectory = client.memory
        to_go = _to_go(recent, environment.gamma)
        alive: Array = recent.alive.astype(to_go.dtype)
        return alive * (to_go - jnp.sum(alive * to_go) / jnp.maximum(jnp.sum(alive), 1.0))

    def loss(theta: Tree, client: Client) -> Array:
        """Minus the mean discounted return; its gradient is that of REINFORCE on the remembered episodes."""
        recent: Trajectory = client.memory
        to_go = _to_go(recent, environment.gamma)
        discount = jnp.asarray(environment.gamma, to_go.dtype) ** jnp.arange(horizon, dtype=to_go.dtype)
        credit = recent.alive.astype(to_go.dtype) * discount[None, :] * to_go
        log_prob = log_pi(theta, recent.obs, recent.choice)
        zero = log_prob - jax.lax.stop_gradient(log_prob)
        return -jnp.mean(to_go[:, 0] + jnp.sum(credit * zero, axis=1))

    local = _record_trajectories(learner.local, batch)
    return learner._replace(
        local=local,
        memory=empty,
        recent=lambda theta, client: client.memory,
        log_pi=log_pi,
        advantages=advantages,
        loss=loss,
        opening=(_fill_memory(local, remember),),
    )


def _theta_shapes(policy: Policy) -> Tree:
    return jax.eval_shape(lambda: policy.init(keys.of_seed(0)))


def _to_go(trajectory: Trajectory, gamma: float) -> Array:
    """[B, T] discounted reward from each step to the end of its episode."""
    zeros = jnp.zeros_like(trajectory.reward)
    return gae(trajectory, trajectory.reward, zeros, zeros, gamma=gamma, gae_lambda=1.0)


def _record_trajectories(inner: LocalUpdate, batch: int) -> LocalUpdate:
    sample: Any = inner.sample  # of one client, or of all that share an environment

    def start(message: Any, client: Client, key: Key) -> Remembering:
        return Remembering(inner.start(message, client, key), client.memory)

    def estimate(state: Remembering, trajectory: Trajectory, client: Client, key: Key) -> tuple[Tree, Remembering]:
        direction, local = inner.estimate(state.local, trajectory, client, key)
        recent = jax.tree.map(lambda old, new: jnp.concatenate([old, new])[batch:], state.recent, trajectory)
        return direction, Remembering(local, recent)

    def finish(state: Remembering, client: Client) -> tuple[Tree, Trajectory, Array]:
        upload, _, env_steps = inner.finish(state.local, client)
        return upload, state.recent, env_steps

    return inner._replace(
        start=start,
        sample=lambda state, client, *rest: sample(state.local, client, *rest),
        estimate=estimate,
        apply=lambda state, direction, client: state._replace(local=inner.apply(state.local, direction, client)),
        finish=finish,
        metrics=lambda state, client: inner.metrics(state.local, client),
    )


def _fill_memory(local: LocalUpdate, remember: int) -> LocalUpdate:
    """`local` that only fills the memory: it moves no parameters and reports nothing."""

    def estimate(state: Remembering, trajectory: Trajectory, client: Client, key: Key) -> tuple[Tree, Remembering]:
        return (), local.estimate(state, trajectory, client, key)[1]

    def finish(state: Remembering, client: Client) -> tuple[Tree, Trajectory, Array]:
        return (), *local.finish(state, client)[1:]

    return local._replace(
        estimate=estimate,
        apply=lambda state, direction, client: state,
        finish=finish,
        local_steps=remember,
        steps_of=None,
        metrics=lambda state, client: {},
    )
