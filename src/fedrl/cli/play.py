"""`fedrl play`: one episode of one client with the learnt policy, as an animated GIF."""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.progress import track

from fedrl import keys
from fedrl.cli import agents, output, play_traffic
from fedrl.environments import protocol
from fedrl.environments.control.cart_pole import SECONDS, CartPole
from fedrl.environments.control.mountain_car import MountainCar
from fedrl.environments.protocol import Environment, Host, Simulator
from fedrl.experiments import orders, restore
from fedrl.experiments.recipe import RecipeError
from fedrl.experiments.restore import TrainedArm
from fedrl.plots import clip, mujoco_scene, scenes
from fedrl.plots.clip import Episode
from fedrl.rollouts import host
from fedrl.rollouts.episodes import sampler
from fedrl.trees import Tree
from fedrl.types import Client, Trajectory, stepwise

COMPARED = 64  # clients compared to find which parameters differ
CAR_SECONDS = 1 / 30  # a step of mountain car has no duration; Gymnasium shows thirty per second


def play(path: Path, client: int, out: Path | None, *, arm: str | None, seed: int, steps: int | None) -> None:
    mujoco_scene.prepare()
    order = orders.from_toml(path)
    if agents.is_language(order):
        raise RecipeError(f"{path} is a run of language agents, whose episodes are text; give --task 0")
    if out is not None and out.suffix.lower() != ".gif":
        raise RecipeError(f"a clip needs a name that ends in .gif, got {out}; try {out}.gif")
    path = path.parent if path.is_file() else path
    name, asked = next(iter(restore.arms(order, arm).items()))
    it = restore.load(order, path, name, asked)
    count = asked.federation.count
    if not 0 <= client < count:
        raise RecipeError(f"there is no client {client}; {order.recipe} has {count}, from 0 to {count - 1}")
    row, differs = describe_client(it, client)
    episode = act(it, row, seed, steps)
    shown = clip.timing(len(episode.rewards), episode.seconds)
    earned = np.concatenate([[0.0], np.cumsum(episode.rewards)])
    said = episode.said or [f"step {t}  return {so_far:.1f}" for t, so_far in enumerate(earned)]
    captions = [f"client {client}  {differs}\n{said[t]}" for t in shown.steps]
    console = output.screen()
    drawn = clip.frames(episode.scene, episode.poses[shown.steps], captions, episode.size)
    pictures = list(
        track(drawn, "drawing", len(shown.steps), console=console, transient=True, disable=not console.is_terminal)
    )
    target = clip.save(pictures, out or path / "figures" / f"client-{client}.gif", shown.hundredths)
    output.say(console, f"{name}, client {client} {differs}".rstrip(), "bold")
    output.say(console, f"{len(episode.rewards)} steps, return {earned[-1]:.1f}, policy of seed {order.seed}")
    pace = f"{shown.rate:.0f} frames per second, {shown.speed:.1f} times real speed"
    output.say(console, f"\nclip     {target} ({len(shown.steps)} frames, {pace})")


def describe_client(it: TrainedArm, client: int) -> tuple[Client, str]:
    """The client in the run's first seed, and those of its environment parameters in which clients differ."""
    federation = it.arm.federation
    clients = jax.tree.map(lambda x: x[0], it.state.clients)
    ids = jnp.append(jnp.arange(min(federation.count, COMPARED), dtype=jnp.int32), jnp.int32(client))
    rows = federation.rows(federation.shared(), clients, ids)
    row: Client = jax.tree.map(lambda x: x[-1], rows)
    differing = [
        f"{name} {float(np.asarray(values)[-1]):.4g}"
        for name, values in zip(getattr(rows.env_params, "_fields", ()), rows.env_params, strict=False)
        if np.ndim(values) == 1 and np.ptp(np.asarray(values)) > 0
    ]
    return row, ", ".join(differing)


def act(it: TrainedArm, client: Client, seed: int, steps: int | None) -> Episode:
    """One episode in the client's own environment with its own parameters; in a shared one, all clients act."""
    algorithm, environment = it.algorithm, protocol.stepwise(it.arm.federation.environment)
    if environment.agents and (episode := play_traffic.act(it, int(client.id), seed, steps)):
        return episode
    server = jax.tree.map(lambda x: x[0], it.state.server)
    theta = algorithm.theta_of(algorithm.answer(server), client)
    key = keys.of(it.state.key[0], "play", seed, "client", client.id)
    horizon = min(environment.max_episode_steps, steps or environment.max_episode_steps)
    if isinstance(environment, Host) and _is_mujoco(client.env_params):
        return _act_in_mujoco(environment, it, theta, client, key, horizon)
    if not isinstance(environment, Environment) or not isinstance(client.env_params, CartPole | MountainCar):
        raise RecipeError(
            "there is nothing to draw in this run; cart-pole, mountain car, half-cheetah, walker2d, hopper and traffic "
            "can be played, and `fedrl evaluate` prints the clients' returns"
        )
    rolled = jax.jit(sampler(environment, stepwise(algorithm.policy), horizon=horizon, batch=1))(theta, client, key)
    trajectory: Trajectory = jax.tree.map(lambda x: np.asarray(x)[0, : int(rolled.alive.sum())], rolled)
    poses = np.concatenate([trajectory.obs, trajectory.after[-1:]])
    if isinstance(client.env_params, CartPole):
        return Episode(poses, trajectory.reward, scenes.cart_pole(client.env_params), SECONDS)
    return Episode(poses, trajectory.reward, scenes.mountain_car(client.env_params), CAR_SECONDS)


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


def _act_in_mujoco(environment: Host, it: TrainedArm, theta: Tree, client: Client, key: Any, horizon: int) -> Episode:
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
