"""One episode of one client with the policy it has learnt, ready to be drawn."""

import sys
from typing import Any

import jax
import numpy as np

from fedrl import keys
from fedrl.environments import protocol
from fedrl.environments.control.cart_pole import SECONDS, CartPole
from fedrl.environments.control.mountain_car import MountainCar
from fedrl.environments.protocol import Environment, Host, Simulator
from fedrl.federations.gymnasium_envs import GymnasiumSimulator
from fedrl.plots import mujoco_scene, scenes
from fedrl.plots.clip import Episode
from fedrl.rendering import traffic
from fedrl.rendering.own_renderer import NOTHING, CannotRender
from fedrl.rendering.rgb_array import RenderedSimulator
from fedrl.rollouts import host
from fedrl.rollouts.episodes import MOST_STEPS, sampler
from fedrl.trained import Trained
from fedrl.trees import Tree
from fedrl.types import Client, Trajectory, stepwise

CAR_SECONDS = 1 / 30  # a step of mountain car has no duration; Gymnasium shows thirty per second


def act(it: Trained, client: Client, seed: int, steps: int | None) -> Episode:
    """One episode in the client's own environment with its own parameters; in a shared one, all clients act."""
    algorithm, environment = it.algorithm, protocol.stepwise(it.federation.environment)
    if environment.agents and (episode := traffic.act(it, int(client.id), seed, steps)):
        return episode
    most = environment.max_episode_steps or MOST_STEPS
    horizon = min(most, steps or most)
    if environment.agents and isinstance(environment, Host):
        from fedrl.rendering import parallel  # needs PettingZoo, which these clients have

        return parallel.act(it, environment, int(client.id), seed, horizon)
    server = jax.tree.map(lambda x: x[0], it.state.server)
    theta = algorithm.theta_of(algorithm.answer(server), client)
    key = keys.of(it.state.key[0], "play", seed, "client", client.id)
    if isinstance(environment, Host) and _is_mujoco(client.env_params):
        return _act_in_mujoco(environment, it, theta, client, key, horizon)
    if isinstance(environment, Host):
        return _act_in_gymnasium(environment, it, theta, client, key, horizon)
    if not isinstance(environment, Environment) or not isinstance(client.env_params, CartPole | MountainCar):
        raise CannotRender(NOTHING)
    rolled = jax.jit(sampler(environment, stepwise(algorithm.policy), horizon=horizon, batch=1))(theta, client, key)
    trajectory: Trajectory = jax.tree.map(lambda x: np.asarray(x)[0, : int(rolled.alive.sum())], rolled)
    poses = np.concatenate([trajectory.obs, trajectory.after[-1:]])
    if isinstance(client.env_params, CartPole):
        return Episode(poses, trajectory.reward, scenes.cart_pole(client.env_params), SECONDS)
    return Episode(poses, trajectory.reward, scenes.mountain_car(client.env_params), CAR_SECONDS)


def _act_in_gymnasium(environment: Host, it: Trained, theta: Tree, client: Client, key: Any, horizon: int) -> Episode:
    opened: list[RenderedSimulator] = []

    def open_rendered(client_id: int, env_params: Any, num_envs: int) -> Simulator:
        simulator = environment.open(client_id, env_params, num_envs)
        if not isinstance(simulator, GymnasiumSimulator):
            simulator.close()
            raise CannotRender(NOTHING)
        opened.append(RenderedSimulator(simulator, horizon))
        return opened[-1]

    try:
        trajectory = sampler(
            environment._replace(open=open_rendered), stepwise(it.algorithm.policy), horizon=horizon, batch=1
        )(theta, client, key)
    finally:
        host.close_all()
    return opened[0].episode(trajectory.reward[0, : trajectory.alive[0].sum()])


class _Recorder:
    """A MuJoCo simulator that records every position of its first environment."""

    def __init__(self, simulator: Any):
        self.simulator: Any = simulator
        self.poses: list[np.ndarray] = []

    def reset(self, rows: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        observations: np.ndarray = self.simulator.reset(rows, seeds)
        self.poses = [self.simulator.qpos[0].copy()]
        return observations

    def step(
        self, actions: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        outcome: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] = self.simulator.step(actions, rows)
        self.poses.append(self.simulator.qpos[0].copy())
        return outcome

    def close(self) -> None:
        self.simulator.close()


def _act_in_mujoco(environment: Host, it: Trained, theta: Tree, client: Client, key: Any, horizon: int) -> Episode:
    recorders: list[_Recorder] = []

    def open_recorded(client_id: int, env_params: Any, num_envs: int) -> Simulator:
        recorders.append(_Recorder(environment.open(client_id, env_params, num_envs)))
        return recorders[-1]

    recorded = environment._replace(open=open_recorded)
    trajectory = sampler(recorded, stepwise(it.algorithm.policy), horizon=horizon, batch=1)(theta, client, key)
    (recorder,) = recorders
    model, seconds = recorder.simulator.batch.model, recorder.simulator.seconds
    host.close_all()
    return Episode(
        np.stack(recorder.poses), trajectory.reward[0, : trajectory.alive[0].sum()], mujoco_scene.scene(model), seconds
    )


def _is_mujoco(env_params: Any) -> bool:
    tasks = sys.modules.get("fedrl.environments.control.mujoco_tasks")  # not imported: no client has such parameters
    return tasks is not None and isinstance(env_params, tasks.MujocoParams)
