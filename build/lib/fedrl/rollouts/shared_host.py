"""Roll-outs of clients that meet in a simulator outside the compiled program, such as SUMO.

A simulator keeps its state to itself, so the scene is how to get there: the seed of each epoch and the actions taken in it.
A simulator that is already there goes on; a new one, in place of one that died or after a resume, is first brought there.
"""

import itertools
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.environments.errors import check_parameters
from fedrl.environments.protocol import Host, element
from fedrl.keys import Key
from fedrl.rollouts.host import act_of, opened
from fedrl.rollouts.shared import Meeting
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory

_purposes = itertools.count(1)


class ReplayState(NamedTuple):
    """Of each copy of the world, [copies, ...]."""

    seed: Any  # uint32
    steps: Any  # int32 taken so far
    actions: Any  # [copies, limit, agents, ...] of which the first `steps` count
    run: Any = 0  # uint32, one number: whose world this is, the same from beginning to end


class SharedSimulator(Protocol):
    """What the `open` of a Host with agents gives: a Simulator that can be told where to be."""

    def at(self, epoch: ReplayState) -> np.ndarray: ...
    def where(self) -> ReplayState: ...
    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray: ...
    def step(
        self, actions: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...
    def close(self) -> None: ...


def host_meeting(environment: Host, policy: Policy, *, horizon: int, batch: int, goes_on: bool = True) -> Meeting:
    """As `meeting`, on simulators of its own: while it is measured, the world in which clients train stays where it is.

    A world that `goes_on` from one roll-out to the next has its own in every run, so that seeds played in turns do not take
    each other's places. Those that always begin afresh share theirs, and are not stepped any more once their epoch is over.
    """
    act, purpose = act_of(policy), next(_purposes)
    draws = -(-horizon // policy.hold)

    @jax.jit
    def draw_noise(ids: Array, key: Key) -> tuple[Any, Array]:
        """Noise of every agent [m, draws * B], and seeds for new epochs [T, B]."""
        acts = jax.vmap(lambda i: policy.noise(keys.of(key, "act", i), (draws * batch,)))(ids)
        return acts, jax.random.bits(keys.of(key, "again"), (horizon, batch), jnp.uint32)

    def begin(env_params: Tree, key: Key) -> ReplayState:
        shape, dtype = element(environment.actions)
        seeds = jax.random.bits(keys.of(key, "reset"), (batch,), jnp.uint32)
        return ReplayState(
            seeds,
            jnp.zeros((batch,), jnp.int32),
            jnp.zeros((batch, environment.max_episode_steps, environment.agents, *shape), dtype),
            jax.random.bits(keys.of(key, "run"), (), jnp.uint32) if goes_on else jnp.uint32(0),
        )

    def sample(theta: Tree, clients: Client, shared_state: ReplayState, key: Key) -> tuple[Trajectory, ReplayState]:
        thetas = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), theta) for i in range(environment.agents)]
        for who, parameters in zip(np.asarray(clients.id), thetas, strict=True):
            check_parameters(int(who), parameters)
        env_params = jax.tree.map(lambda x: np.asarray(x[0]), clients.env_params)
        stage: Any = opened(environment, int(shared_state.run), env_params, batch, purpose)
        acts, seeds = jax.device_get(draw_noise(clients.id, key))
        acts = jax.tree.map(lambda x: x.reshape(x.shape[0], draws, batch, *x.shape[2:]), acts)
        obs = stage.at(jax.tree.map(np.asarray, shared_state))
        trajectory: list[Trajectory] = []
        live = np.ones(batch, bool)
        for t in range(horizon):
            noise = jax.tree.map(lambda x, t=t: x[:, t // policy.hold], acts)
            chosen = [act(thetas[i], obs[:, i], jax.tree.map(lambda x, i=i: x[i], noise)) for i in range(len(thetas))]
            choice, action = (jax.tree.map(lambda *x: np.stack(x, axis=1), *part) for part in zip(*chosen, strict=True))
            after, reward, terminated, truncated = _step(stage, action, live, obs)
            over, last = terminated | truncated, t == horizon - 1
            alive, terminated, truncated = (
                np.repeat(x[:, None], environment.agents, 1)
                for x in (live, terminated, (truncated | last) & ~terminated)
            )
            trajectory.append(Trajectory(obs, choice, reward.astype(np.float32), alive, terminated, truncated, after))
            obs, live = after, live if goes_on else live & ~over
            if not live.any():
                break
            if goes_on and over.any():
                rows = np.flatnonzero(over)
                obs = after.copy()
                obs[rows] = stage.reset(rows, seeds[t, rows])
        nothing = {
            name: np.zeros_like(getattr(trajectory[-1], name))
            for name in ("reward", "alive", "terminated", "truncated")
        }
        trajectory += [trajectory[-1]._replace(**nothing)] * (horizon - len(trajectory))
        stack = jax.tree.map(
            lambda *x: np.ascontiguousarray(np.stack(x).transpose(2, 1, 0, *range(3, x[0].ndim + 1))), *trajectory
        )
        return stack, stage.where()._replace(run=shared_state.run)

    return Meeting(begin, sample)


def _step(stage: SharedSimulator, actions: np.ndarray, live: np.ndarray, obs: np.ndarray) -> tuple[np.ndarray, ...]:
    """What a step of the `live` copies brings, as arrays of all copies: the others see what they saw and earn nothing."""
    if live.all():
        return stage.step(actions)
    rows = np.flatnonzero(live)
    full = obs.copy(), np.zeros(obs.shape[:2], np.float32), *np.zeros((2, len(live)), bool)
    for where, came in zip(full, stage.step(actions[rows], rows), strict=True):
        where[rows] = came
    return full
