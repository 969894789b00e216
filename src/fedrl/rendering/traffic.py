"""An episode of traffic: all clients on the road they share, in arrays or in SUMO, one of them marked."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.environments.protocol import Environment, Host, ReplayState
from fedrl.environments.traffic import figure_eight
from fedrl.environments.traffic.car_following import ROUND, SECONDS
from fedrl.keys import Key
from fedrl.plots import figure_eight_road, roads_scene
from fedrl.plots.clip import Episode
from fedrl.plots.roads_scene import HUMAN, LEARNING, OWN
from fedrl.rollouts import host
from fedrl.rollouts.shared import shared_rollout
from fedrl.rollouts.shared_host import shared_host_rollout
from fedrl.trained import Trained
from fedrl.trees import Tree
from fedrl.types import Client, Trajectory, stepwise

Outcome = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # observations, rewards, terminated, truncated
DEFAULT_STEPS = 200  # steps that are shown: 20 s of Figure Eight, 100 s of Merge


class Sight(NamedTuple):
    """What an agent observes, and what is drawn."""

    own: Array
    position: Array  # [vehicles] in m
    speed: Array


class Drive(NamedTuple):
    """The road over time, [T + 1, ...]."""

    lanes: list[np.ndarray]
    vehicles: np.ndarray  # as `roads_scene` has a pose
    speed: np.ndarray  # mean of all vehicles, m/s
    rewards: np.ndarray  # [T]
    seconds: float  # per step


def act(it: Trained, client: int, seed: int, steps: int | None) -> Episode | None:
    """The first `steps` steps of an epoch; None if this is not traffic."""
    key, (theta, clients) = keys.of(it.state.key[0], "play", seed), everyone(it)
    if isinstance(it.federation.environment, Host):
        drive = _in_sumo(it, theta, clients, key, client, steps)
    elif isinstance(clients.env_params, figure_eight.FigureEight):
        drive = _in_arrays(it, theta, clients, key, client, steps)
    else:
        return None
    if drive is None:
        return None
    said = [f"{t * drive.seconds:.1f} s  mean speed {speed:.2f} m/s" for t, speed in enumerate(drive.speed)]
    scene, size = roads_scene.scene(drive.lanes), roads_scene.size(drive.lanes)
    return Episode(drive.vehicles, drive.rewards, scene, drive.seconds, said, size)


def everyone(it: Trained) -> tuple[Tree, Client]:
    """The parameters that each client acts with, and the clients, of the run's first seed."""
    federation = it.federation
    ids = jnp.arange(federation.count, dtype=jnp.int32)
    clients = federation.rows(federation.shared(), jax.tree.map(lambda x: x[0], it.state.clients), ids)
    answer = it.algorithm.answer(jax.tree.map(lambda x: x[0], it.state.server))
    return jax.vmap(lambda one: it.algorithm.theta_of(answer, one))(clients), clients


def _in_arrays(it: Trained, theta: Tree, clients: Client, key: Key, client: int, steps: int | None) -> Drive:
    """Observations contain the whole road, but agents act on their own part."""
    environment, policy = it.federation.environment, stepwise(it.algorithm.policy)
    assert isinstance(environment, Environment)

    def observe(env_params: Any, state: figure_eight.State) -> Sight:
        road = (state.traffic.position, state.traffic.speed)
        return Sight(
            environment.observe(env_params, state), *(jnp.broadcast_to(x, (environment.agents, x.size)) for x in road)
        )

    shared = shared_rollout(
        environment._replace(observe=observe),
        policy._replace(sample=lambda acting, sight, noise: policy.sample(acting, sight.own, noise)),
        horizon=min(environment.max_episode_steps, steps or DEFAULT_STEPS),
        batch=1,
    )
    stack = jax.jit(shared.sample)(theta, clients, shared.init(_first(clients.env_params), key), key)[0]
    trajectory = _first_epoch(stack, client)
    position, speed = (
        np.concatenate([before, after[-1:]])
        for before, after in zip(trajectory.obs[1:], trajectory.after[1:], strict=True)
    )
    start = np.asarray(stack.obs.own)[:, 0, 0, :1] * ROUND  # where each agent's vehicle was
    learning = np.abs(start - position[0]).argmin(axis=1)
    who = np.full(position.shape, HUMAN)
    who[:, learning], who[:, learning[client]] = LEARNING, OWN
    vehicles = np.concatenate([figure_eight_road.placed(position), who[..., None]], axis=-1)
    return Drive(figure_eight_road.lanes(), vehicles, speed.mean(axis=1), trajectory.reward, SECONDS)


def _in_sumo(it: Trained, theta: Tree, clients: Client, key: Key, client: int, steps: int | None) -> Drive | None:
    environment = it.federation.environment
    assert isinstance(environment, Host)
    simulator: Any = environment.open(0, _first(jax.tree.map(np.asarray, clients.env_params)), 1)
    try:
        lanes, seconds = list(simulator.call(0, "lanes").values()), simulator.call(0, "dt")
    except AttributeError:  # this environment has no roads
        simulator.close()
        return None
    recorder = _Recorder(simulator, client)
    horizon = min(environment.max_episode_steps, steps or DEFAULT_STEPS)
    shared = shared_host_rollout(
        environment._replace(open=lambda *_: recorder), stepwise(it.algorithm.policy), horizon=horizon, batch=1
    )
    stack, _ = shared.sample(theta, clients, shared.init(_first(clients.env_params), key), key)
    host.close_all()
    trajectory = _first_epoch(stack, client)
    states = len(trajectory.reward) + 1
    most = max(map(len, recorder.roads[:states]))
    vehicles = np.full((states, most, 4), np.nan)
    for t, road in enumerate(recorder.roads[:states]):
        vehicles[t, : len(road)] = road
    return Drive(lanes, vehicles, np.array(recorder.speeds[:states]), trajectory.reward, seconds)


class _Recorder:
    """A shared SUMO simulator that records all vehicles."""

    def __init__(self, simulator: Any, client: int):
        self.simulator, self.client = simulator, client
        self.roads: list[list[tuple[float, float, float, int]]] = []
        self.speeds: list[float] = []

    def restore(self, state: ReplayState) -> np.ndarray:
        observations: np.ndarray = self.simulator.restore(state)
        self._record()
        return observations

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None) -> Outcome:
        outcome: Outcome = self.simulator.step(actions, rows)
        self._record()
        return outcome

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        observations: np.ndarray = self.simulator.reset(rows, seeds)
        return observations

    def replay_state(self) -> ReplayState:
        state: ReplayState = self.simulator.replay_state()
        return state

    def close(self) -> None:
        self.simulator.close()

    def _record(self) -> None:
        agent, info = list(self.simulator.infos[0].items())[self.client]
        own = info.get("vehicle", agent)  # an agent is a vehicle, or drives one
        self.roads.append(
            [
                (v.x, v.y, v.angle, OWN if v.id == own else LEARNING if v.learning else HUMAN)
                for v in self.simulator.call(0, "vehicles")
            ]
        )
        self.speeds.append(info["mean_speed"])


def _first_epoch(stack: Trajectory, client: int) -> Trajectory:
    """One client's trajectory up to the end of its first epoch."""
    trajectory: Trajectory = jax.tree.map(lambda x: np.asarray(x)[client, 0], stack)
    count = int(np.argmax(trajectory.terminated | trajectory.truncated)) + 1
    first: Trajectory = jax.tree.map(lambda x: x[:count], trajectory)
    return first


def _first(env_params: Tree) -> Tree:
    return jax.tree.map(lambda x: x[0], env_params)
