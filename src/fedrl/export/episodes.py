"""Ten episodes in a client's environment, played by any function of its own observations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys
from fedrl.core.client import step_key
from fedrl.environments.protocol import Environment, Host, element
from fedrl.export.check import EPISODES, NotPlayed, Play
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import SEEDS, GymnasiumSimulator, naming_client
from fedrl.records.run_toml import RunFolderError
from fedrl.rollouts.episodes import MOST_STEPS
from fedrl.rollouts.host import close
from fedrl.trained import Trained
from fedrl.types import Client

DISCOUNTED = 200  # steps of an episode that only discounting ends
Act = Callable[[Any], np.ndarray]


def of_run(restore: Callable[[], Trained], client: int | None, seed: int = 0, *, allowed: bool = True) -> Play:
    """How to play in the environment of a run's `client`, or of its client 0. It is restored when episodes are asked for."""

    def play(act: Act) -> tuple[int, float]:
        if not allowed:
            raise NotPlayed("the environment was to be left alone")
        try:
            it = restore()
        except RunFolderError as error:
            raise NotPlayed(str(error)) from error
        clients = jax.tree.map(lambda x: x[seed], it.state.clients)
        rows = it.federation.rows(it.federation.shared(), clients, jnp.array([client or 0], jnp.int32))
        return episodes(it.federation, jax.tree.map(lambda x: x[0], rows), seed)(act)

    return play


def episodes(federation: Federation, client: Client, seed: int = 0) -> Play:
    """How to play in the environment of `client`."""
    environment = federation.environment
    if getattr(environment, "agents", 0):
        raise NotPlayed("the clients share one environment, where each acts beside the others")
    key = keys.of(keys.of_seed(seed), "export", client.id)
    if isinstance(environment, Environment):
        return lambda act: _compiled(environment, client, key, act)
    if isinstance(environment, Host):
        return lambda act: _simulated(environment, client, key, act)
    raise NotPlayed("the environment is not one of arrays")


def _compiled(environment: Environment, client: Client, key: Any, act: Act) -> tuple[int, float]:
    prepared = environment.prepare(client.env_params)
    horizon = environment.max_episode_steps or DISCOUNTED

    def noise(step: int) -> Any:
        return environment.noise(step_key(key, step), (EPISODES,))

    draw = jax.jit(noise)
    observe = jax.jit(jax.vmap(lambda state: environment.observe(prepared, state)))
    step = jax.jit(jax.vmap(lambda state, action, noise: environment.step(prepared, state, action, noise)))
    state = jax.jit(jax.vmap(lambda n: environment.reset(prepared, n)))(draw(horizon))
    shape, dtype = element(environment.actions)
    alive, total, steps = np.ones(EPISODES, bool), np.zeros(EPISODES), 0
    for t in range(horizon):
        actions: np.ndarray = np.zeros((EPISODES, *shape), dtype)
        actions[alive] = act(np.asarray(observe(state))[alive])
        after = step(state, actions, draw(t))
        total += np.where(alive, np.asarray(after.reward), 0.0)
        steps += int(alive.sum())
        alive, state = alive & ~np.asarray(after.terminated | after.truncated), after.state
        if not alive.any():
            break
    return steps, float(total.mean())


def _simulated(environment: Host, client: Client, key: Any, act: Act) -> tuple[int, float]:
    """With Gymnasium's own environments where a simulator has them, since policies outside see their observations."""
    env_params = jax.tree.map(np.asarray, client.env_params)
    seeds = np.asarray(jax.random.bits(key, (EPISODES,))).astype(np.uint64)
    simulator: Any = environment.open(int(client.id), env_params, 1)
    try:
        play = _one_in_gymnasium if isinstance(simulator, GymnasiumSimulator) else _one
        each = [play(simulator, seed, environment, act) for seed in seeds]
    finally:
        close(int(client.id), simulator)
    return sum(steps for steps, _ in each), float(np.mean([total for _, total in each]))


def _one(simulator: Any, seed: np.uint64, environment: Host, act: Act) -> tuple[int, float]:
    obs, total = simulator.reset(np.arange(1), np.array([seed])), 0.0
    horizon = environment.max_episode_steps or MOST_STEPS
    for t in range(horizon):
        obs, reward, terminated, truncated = simulator.step(act(obs))
        total += float(reward[0])
        if terminated[0] or truncated[0]:
            return t + 1, total
    return horizon, total


def _one_in_gymnasium(simulator: GymnasiumSimulator, seed: np.uint64, environment: Host, act: Act) -> tuple[int, float]:
    env, total = simulator.envs[0], 0.0
    with naming_client(simulator.client_id, "reset"):
        obs, _ = env.reset(seed=int(seed % SEEDS))
    horizon = environment.max_episode_steps or MOST_STEPS
    for t in range(horizon):
        (action,) = act(_stacked(obs))
        with naming_client(simulator.client_id, "step"):
            obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            return t + 1, total
    return horizon, total


def _stacked(obs: Any) -> Any:
    """One observation as a batch of one."""
    if isinstance(obs, dict):
        return {name: _stacked(part) for name, part in obs.items()}
    return tuple(map(_stacked, obs)) if isinstance(obs, tuple) else np.asarray(obs)[None]
