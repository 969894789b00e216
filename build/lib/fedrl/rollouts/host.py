"""Roll-outs on simulators outside the compiled program: all copies of a client step together, in NumPy.

A process opens a client's simulator once and keeps it; every roll-out begins new episodes, so nothing carries over from one
to the next and a roll-out repeated elsewhere gives the same bytes.
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

MOST_OPEN = 256  # simulators one process keeps open; beyond that the one used longest ago is closed


def rollout(environment: Host, policy: Policy, *, horizon: int, batch: int, restart: bool) -> Sampler:
    """The sampler of a host environment; `restart` as in `sampler`."""
    act = act_of(policy)
    draws = -(-horizon // policy.hold)
    noise = Compiled(lambda key: policy.noise(keys.of(key, "act"), (draws * batch,)))
    draw_seeds = Compiled(lambda key: jax.random.bits(keys.of(key, "reset"), (horizon + 1, batch, 2)))

    def sample(theta: Tree, client: Client, key: Key) -> Trajectory:
        theta = jax.tree.map(np.asarray, theta)
        env_params, who = jax.tree.map(np.asarray, client.env_params), int(client.id)
        check_parameters(who, theta)
        simulator = opened(environment, who, env_params, batch)
        acts = jax.tree.map(lambda x: np.asarray(x).reshape(draws, batch, *x.shape[1:]), noise(key))
        seeds = np.asarray(draw_seeds(key)).astype(np.uint64)
        seeds = seeds[..., 0] << np.uint64(32) | seeds[..., 1]
        room = shapes(environment, policy, theta, horizon=horizon, batch=batch)
        blank = Trajectory(*(np.zeros((horizon, batch, *x.shape[2:]), x.dtype) for x in room))
        return _play(
            environment, simulator, who, lambda obs, n: act(theta, obs, n), acts, policy.hold, seeds, restart, blank
        )

    return sample


def _play(
    environment: Host,
    simulator: Simulator,
    who: int,
    act: Callable,
    acts: Any,
    hold: int,
    seeds: np.ndarray,
    restart: bool,
    trajectory: Trajectory,
) -> Trajectory:
    """Fill `trajectory` [T, B]; returned as [B, T]. Without `restart`, a row that is over is not stepped any more.

    All rows choose an action at every step, even then: a product of matrices rounds by their sizes.
    """
    horizon, batch = seeds.shape[0] - 1, seeds.shape[1]
    rows, episode = np.arange(batch), np.zeros(batch, int)
    obs, live = simulator.reset(rows, seeds[0]), rows
    for t in range(horizon):
        choice, action = act(obs, jax.tree.map(lambda x, t=t: x[t // hold], acts))
        if len(live) == batch:
            after, reward, terminated, truncated = simulator.step(action)
        else:
            after, reward, terminated, truncated = simulator.step(action[live], live)
        over = terminated | truncated
        came = obs[live], choice[live], reward, True, terminated, truncated & ~terminated, after
        for name, value in zip(Trajectory._fields, came, strict=True):
            getattr(trajectory, name)[t, live] = value
        obs = obs.copy()
        obs[live] = after
        if not restart:
            live = live[~over]
            if not len(live):
                break
        elif over.any() and t < horizon - 1:
            again = rows[over]
            episode[again] += 1
            obs[again] = simulator.reset(again, seeds[episode[again], again])
    trajectory.truncated[-1] |= ~trajectory.terminated[-1]
    if not restart and not environment.max_episode_steps and horizon == MOST_STEPS and len(live):
        raise EnvironmentFailed(
            f"client {who}: an episode has not ended after {horizon} steps and the environment has no time limit; "
            "give it one, e.g. fedrl.gymnasium(make_env, clients=…, max_episode_steps=1000)"
        )
    return Trajectory(*(np.ascontiguousarray(np.swapaxes(x, 0, 1)) for x in trajectory))


def act_of(policy: Policy) -> Callable:
    """(theta, obs [B], noise [B]) -> choice, action in NumPy: the policy's own, or the traced one, many at a time."""
    if policy.host:
        return policy.host

    @Compiled
    def both(theta: Tree, obs: Any, noise: Any) -> tuple[Any, Any]:
        acting = policy.prepare(theta)
        choice = jax.vmap(lambda o, n: policy.sample(acting, o, n))(obs, noise)
        return choice, jax.vmap(policy.action)(choice)

    return lambda theta, obs, noise: jax.tree.map(np.asarray, both(theta, obs, noise))


_open: OrderedDict[tuple, tuple[Host, bytes, Simulator]] = OrderedDict()


def opened(environment: Host, who: int, env_params: Any, num_envs: int, purpose: int = 0) -> Simulator:
    """The simulator of client `who` with this world, opened now or kept from before; each purpose has its own."""
    place = (id(environment.open), who, num_envs, purpose)
    stamp = b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(env_params))
    if place in _open and _open[place][1] == stamp and _open[place][0] is environment:
        _open.move_to_end(place)
        return _open[place][2]
    if place in _open:
        close(who, _open.pop(place)[2])
    _open[place] = (environment, stamp, environment.open(who, env_params, num_envs))
    if len(_open) > MOST_OPEN:
        (_, longest_ago, *_), (_, _, simulator) = _open.popitem(last=False)
        close(longest_ago, simulator)
    return _open[place][2]


def close_all() -> None:
    """Close every simulator of this process."""
    while _open:
        (_, who, *_), (_, _, simulator) = _open.popitem()
        close(who, simulator)


def close(who: int, simulator: Simulator) -> None:
    """Its work is done, so a simulator that cannot be closed is no reason to lose the run."""
    try:
        simulator.close()
    except Exception as error:
        warnings.warn(f"client {who}: close raised {type(error).__name__}: {error}; fix its close()", stacklevel=2)
