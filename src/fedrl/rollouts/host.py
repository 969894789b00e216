"""Roll-outs on simulators outside the compiled program: all copies of a client step together, in NumPy.

A process opens a client's simulator once and keeps it. Every roll-out starts new episodes, so nothing carries over from one
to the next, and a roll-out repeated elsewhere gives the same bytes.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fedrl import keys
from fedrl.environments.errors import EnvironmentFailed, check_parameters
from fedrl.environments.protocol import Host, Simulator
from fedrl.keys import Key
from fedrl.rollouts.compiling import Compiled
from fedrl.rollouts.episodes import MOST_STEPS, Sampler, shapes
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory

MOST_OPEN = 256  # simulators that one process keeps open; beyond that, the least recently used is closed

HostActor = Callable[[Tree, Any, Any], tuple[Any, Any]]  # (theta, obs [B], noise [B]) -> choice, action, in NumPy


def rollout(environment: Host, policy: Policy, *, horizon: int, batch: int, restart: bool) -> Sampler:
    """The sampler of a host environment; `restart` as in `sampler`."""
    act = host_actor(policy)
    draws = -(-horizon // policy.hold)
    noise = Compiled(lambda key: policy.noise(keys.of(key, "act"), (draws * batch,)))
    draw_seeds = Compiled(lambda key: jax.random.bits(keys.of(key, "reset"), (horizon + 1, batch, 2)))

    def sample(theta: Tree, client: Client, key: Key) -> Trajectory:
        theta = jax.tree.map(np.asarray, theta)
        env_params, client_id = jax.tree.map(np.asarray, client.env_params), int(client.id)
        check_parameters(client_id, theta)
        simulator = open_simulator(environment, client_id, env_params, batch)
        acts = jax.tree.map(lambda x: np.asarray(x).reshape(draws, batch, *x.shape[1:]), noise(key))
        seeds = np.asarray(draw_seeds(key)).astype(np.uint64)
        seeds = seeds[..., 0] << np.uint64(32) | seeds[..., 1]
        like = shapes(environment, policy, theta, horizon=horizon, batch=batch)
        zeros = Trajectory(*(np.zeros((horizon, batch, *x.shape[2:]), x.dtype) for x in like))

        def act_at(t: int, obs: np.ndarray) -> tuple[Any, Any]:
            return act(theta, obs, jax.tree.map(lambda x: x[t // policy.hold], acts))

        trajectory, unfinished = _play(simulator, act_at, seeds, restart, zeros)
        if unfinished and not restart and not environment.max_episode_steps and horizon == MOST_STEPS:
            raise EnvironmentFailed(
                f"client {client_id}: an episode has not ended after {horizon} steps and the environment has no time "
                "limit; set one, e.g. fedrl.gymnasium(make_env, clients=…, max_episode_steps=1000)"
            )
        return trajectory

    return sample


def _play(
    simulator: Simulator,
    act: Callable[[int, np.ndarray], tuple[Any, Any]],
    seeds: np.ndarray,
    restart: bool,
    trajectory: Trajectory,
) -> tuple[Trajectory, bool]:
    """Fill `trajectory` [T, B]; returns it as [B, T], and whether some episode has not ended.

    Without `restart`, a row whose episode has ended is not stepped any more. All rows still choose an action at every step:
    the rounding of a matrix product depends on its size.
    """
    horizon, batch = seeds.shape[0] - 1, seeds.shape[1]
    rows, episode = np.arange(batch), np.zeros(batch, int)
    obs, live = simulator.reset(rows, seeds[0]), rows
    for t in range(horizon):
        choice, action = act(t, obs)
        if len(live) == batch:
            after, reward, terminated, truncated = simulator.step(action)
        else:
            after, reward, terminated, truncated = simulator.step(action[live], live)
        over = terminated | truncated
        values = obs[live], choice[live], reward, True, terminated, truncated & ~terminated, after
        for name, value in zip(Trajectory._fields, values, strict=True):
            getattr(trajectory, name)[t, live] = value
        obs = obs.copy()
        obs[live] = after
        if not restart:
            live = live[~over]
            if not len(live):
                break
        elif over.any() and t < horizon - 1:
            restarts = rows[over]
            episode[restarts] += 1
            obs[restarts] = simulator.reset(restarts, seeds[episode[restarts], restarts])
    trajectory.truncated[-1] |= ~trajectory.terminated[-1]
    return Trajectory(*(np.ascontiguousarray(np.swapaxes(x, 0, 1)) for x in trajectory)), len(live) > 0


def host_actor(policy: Policy) -> HostActor:
    """The policy's own NumPy function, or else its compiled one for a whole batch."""
    if policy.host:
        return policy.host

    @Compiled
    def sample_and_act(theta: Tree, obs: Any, noise: Any) -> tuple[Any, Any]:
        acting = policy.prepare(theta)
        choice = jax.vmap(lambda o, n: policy.sample(acting, o, n))(obs, noise)
        return choice, jax.vmap(policy.action)(choice)

    def act(theta: Tree, obs: Any, noise: Any) -> tuple[Any, Any]:
        choice, action = jax.tree.map(np.asarray, sample_and_act(theta, obs, noise))
        return choice, action

    return act


_open: OrderedDict[tuple[int, int, int, int], tuple[Host, bytes, Simulator]] = OrderedDict()


def open_simulator(environment: Host, client_id: int, env_params: Any, num_envs: int, purpose: int = 0) -> Simulator:
    """The simulator of a client with these parameters, newly opened or still open; one per `purpose`."""
    place = (id(environment.open), client_id, num_envs, purpose)
    param_bytes = b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(env_params))
    if place in _open and _open[place][1] == param_bytes and _open[place][0] is environment:
        _open.move_to_end(place)
        return _open[place][2]
    if place in _open:
        close(client_id, _open.pop(place)[2])
    _open[place] = (environment, param_bytes, environment.open(client_id, env_params, num_envs))
    if len(_open) > MOST_OPEN:
        (_, least_recent, *_), (_, _, simulator) = _open.popitem(last=False)
        close(least_recent, simulator)
    return _open[place][2]


def close_all() -> None:
    """Close every simulator of this process."""
    while _open:
        (_, client_id, *_), (_, _, simulator) = _open.popitem()
        close(client_id, simulator)


def close(client_id: int, simulator: Simulator) -> None:
    """Close a simulator. If that fails, only warn: its work is done, and the run should not be lost."""
    try:
        simulator.close()
    except Exception as error:
        warnings.warn(
            f"client {client_id}: close raised {type(error).__name__}: {error}; fix its close()", stacklevel=2
        )
