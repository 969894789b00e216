"""Roll-outs of clients that share a simulator outside the compiled program, such as SUMO.

A simulator does not expose its state, so the shared state is a recipe for reaching it: the seed of each episode and the
actions taken in it. A simulator that is already there continues; a new one, after a crash or a resume, replays the actions.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.environments.errors import check_parameters
from fedrl.environments.protocol import Host, ReplayState, SharedSimulator, StepArrays, element
from fedrl.keys import Key
from fedrl.rollouts.host import HostActor, host_actor, open_simulator
from fedrl.rollouts.shared import SharedRollout
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory

_purposes = itertools.count(1)


def shared_host_rollout(
    environment: Host, policy: Policy, *, horizon: int, batch: int, continues: bool = True
) -> SharedRollout:
    """As `shared_rollout`, on simulators of its own: evaluation does not disturb the simulators used for training.

    With `continues`, every run has its own simulators, so that seeds trained in turns do not displace one another.
    Without it, every roll-out starts new episodes; runs then share simulators, which are not stepped after their episode
    has ended.
    """
    act, purpose = host_actor(policy), next(_purposes)
    draws = -(-horizon // policy.hold)

    @jax.jit
    def draw_noise(ids: Array, key: Key) -> tuple[Any, Array]:
        """Noise of every agent [m, draws * B], and seeds for new episodes [T, B]."""
        acts = jax.vmap(lambda i: policy.noise(keys.of(key, "act", i), (draws * batch,)))(ids)
        return acts, jax.random.bits(keys.of(key, "again"), (horizon, batch), jnp.uint32)

    def init(env_params: Tree, key: Key) -> ReplayState:
        shape, dtype = element(environment.actions)
        seeds = jax.random.bits(keys.of(key, "reset"), (batch,), jnp.uint32)
        return ReplayState(
            seeds,
            jnp.zeros((batch,), jnp.int32),
            jnp.zeros((batch, environment.max_episode_steps, environment.agents, *shape), dtype),
            jax.random.bits(keys.of(key, "run"), (), jnp.uint32) if continues else jnp.uint32(0),
        )

    def sample(theta: Tree, clients: Client, shared_state: ReplayState, key: Key) -> tuple[Trajectory, ReplayState]:
        thetas = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), theta) for i in range(environment.agents)]
        for client_id, parameters in zip(np.asarray(clients.id), thetas, strict=True):
            check_parameters(int(client_id), parameters)
        env_params = jax.tree.map(lambda x: np.asarray(x[0]), clients.env_params)
        simulator: Any = open_simulator(environment, int(shared_state.run), env_params, batch, purpose)
        acts, seeds = jax.device_get(draw_noise(clients.id, key))
        acts = jax.tree.map(lambda x: x.reshape(x.shape[0], draws, batch, *x.shape[2:]), acts)
        obs = simulator.restore(jax.tree.map(np.asarray, shared_state))
        trajectory: list[Trajectory] = []
        live = np.ones(batch, bool)
        for t in range(horizon):
            noise = jax.tree.map(lambda x, t=t: x[:, t // policy.hold], acts)
            choice, action = _act(act, thetas, obs, noise)
            after, reward, terminated, truncated = _step(simulator, action, live, obs)
            over, last = terminated | truncated, t == horizon - 1
            alive, terminated, truncated = (
                np.repeat(x[:, None], environment.agents, 1)
                for x in (live, terminated, (truncated | last) & ~terminated)
            )
            trajectory.append(Trajectory(obs, choice, reward.astype(np.float32), alive, terminated, truncated, after))
            obs, live = after, live if continues else live & ~over
            if not live.any():
                break
            if continues and over.any():
                rows = np.flatnonzero(over)
                obs = after.copy()
                obs[rows] = simulator.reset(rows, seeds[t, rows])
        return _stack(trajectory, horizon), simulator.replay_state()._replace(run=shared_state.run)

    return SharedRollout(init, sample)


def _act(act: HostActor, thetas: list[Tree], obs: np.ndarray, noise: Tree) -> tuple[Any, Any]:
    """Choices and actions [B, m, ...] of all agents, each with its own parameters and noise [m, B, ...]."""
    by_agent = [act(theta, obs[:, i], jax.tree.map(lambda x, i=i: x[i], noise)) for i, theta in enumerate(thetas)]
    choice, action = (jax.tree.map(lambda *x: np.stack(x, axis=1), *part) for part in zip(*by_agent, strict=True))
    return choice, action


def _stack(steps: list[Trajectory], horizon: int) -> Trajectory:
    """Steps [B, m, ...] as one Trajectory [m, B, T, ...], padded to `horizon` with steps in which nothing happened."""
    no_op = {name: np.zeros_like(getattr(steps[-1], name)) for name in ("reward", "alive", "terminated", "truncated")}
    all_steps = [*steps, *[steps[-1]._replace(**no_op)] * (horizon - len(steps))]
    stack: Trajectory = jax.tree.map(
        lambda *x: np.ascontiguousarray(np.stack(x).transpose(2, 1, 0, *range(3, x[0].ndim + 1))), *all_steps
    )
    return stack


def _step(simulator: SharedSimulator, actions: np.ndarray, live: np.ndarray, obs: np.ndarray) -> StepArrays:
    """Step the `live` copies; returns arrays of all copies. The others keep their observation and earn nothing."""
    if live.all():
        return simulator.step(actions)
    rows = np.flatnonzero(live)
    results = (
        obs.copy(),
        np.zeros(obs.shape[:2], np.float32),
        np.zeros(len(live), bool),
        np.zeros(len(live), bool),
    )
    for all_rows, values in zip(results, simulator.step(actions[rows], rows), strict=True):
        all_rows[rows] = values
    return results
