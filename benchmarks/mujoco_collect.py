"""Steps per second on HalfCheetah: bare `mujoco.rollout`, fedrl's training, stable-baselines3's PPO; all in one run.

Bare: random actions, frame-skip physics steps per call, all cores, nothing computed from the states. fedrl: the roll-outs of
PPO training (policy, observations, rewards, resets, recording) of one client on all cores, and its whole training beside it.
stable-baselines3: PPO with as many environments, in one process or in several, whichever is faster. Interleaved; the best
of several trials counts.
"""

import argparse
import os
import time
from importlib.util import find_spec

import gymnasium
import jax
import mujoco
import numpy as np
from arguments import parse
from mujoco import rollout as bare_rollout

from fedrl import keys
from fedrl.environments.control.mujoco import half_cheetah
from fedrl.environments.control.mujoco_tasks import HALF_CHEETAH, params
from fedrl.federations.federation import Federation
from fedrl.learners.ppo import ppo
from fedrl.types import Client

COPIES = 16  # rows of one roll-out
EPOCHS, MINIBATCH = 10, 256


def bare(steps: int) -> float:
    """mujoco.rollout in a loop: one call per environment step, random controls held for the frame skip."""
    model = gymnasium.make("HalfCheetah-v5").unwrapped.model
    skip, cores = 5, os.cpu_count() or 1
    datas = [mujoco.MjData(model) for _ in range(cores)]
    state = np.zeros((COPIES, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    mujoco.mj_getState(model, datas[0], state[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    state[:] = state[0]
    luck = np.random.default_rng(0).uniform(-1, 1, (steps, COPIES, 1, model.nu))
    with bare_rollout.Rollout(nthread=cores) as pool:
        before = time.perf_counter()
        for t in range(steps):
            states, _ = pool.rollout(model, datas, state, np.repeat(luck[t], skip, axis=1))
            state = states[:, -1]
        return COPIES * steps / (time.perf_counter() - before)


class Ours:
    """One client's PPO iteration: its roll-out, and what it learns from it."""

    def __init__(self, steps: int) -> None:
        self.steps = COPIES * steps
        federation = Federation(half_cheetah(), jax.tree.map(lambda x: np.asarray(x)[None], params(HALF_CHEETAH)))
        learner = ppo(
            steps=self.steps, num_envs=COPIES, epochs=EPOCHS, minibatch=MINIBATCH,
            critic_epochs=EPOCHS, critic_minibatch=MINIBATCH,
        )(federation.environment)  # fmt: skip
        self.local, key = learner.local, keys.of_seed(0)
        self.client = Client(jax.numpy.int32(0), federation.example(), (), learner.memory(jax.numpy.int32(0), key))
        message = type("Message", (), {"theta": learner.init(key), "round": jax.numpy.int32(0)})
        start = self.local.start(message, self.client, key)
        self.state, self.round = start._replace(message=()), message.round
        self.learn = jax.jit(self._learn)

    def _learn(self, local, trajectory, key):
        message = type("Message", (), {"theta": local.theta, "round": jax.numpy.int32(0)})
        _, after = self.local.estimate(local._replace(message=message), trajectory, self.client, key)
        return after._replace(message=())

    def trial(self, number: int) -> tuple[float, float]:
        """Steps per second of the roll-out, and of roll-out and learning together."""
        key, before = keys.of(keys.of_seed(1), number), time.perf_counter()
        trajectory = self.local.sample(self.state, self.client, key)
        acted = time.perf_counter()
        self.state = jax.block_until_ready(self.learn(self.state, trajectory, key))
        learnt = time.perf_counter()
        return self.steps / (acted - before), self.steps / (learnt - before)


class Theirs:
    def __init__(self, kind: str, steps: int) -> None:
        from stable_baselines3 import PPO
        from stable_baselines3.common import vec_env
        from stable_baselines3.common.env_util import make_vec_env

        self.rows, self.steps = steps, COPIES * steps
        self.env = make_vec_env("HalfCheetah-v5", n_envs=COPIES, vec_env_cls=getattr(vec_env, kind))
        self.model = PPO("MlpPolicy", self.env, n_steps=steps, n_epochs=EPOCHS, batch_size=MINIBATCH, device="cpu")
        self.model.learn(self.steps)

    def trial(self) -> tuple[float, float]:
        model, before = self.model, time.perf_counter()
        _, callback = model._setup_learn(self.steps)
        model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=self.rows)
        acted = time.perf_counter()
        model.train()
        learnt = time.perf_counter()
        return self.steps / (acted - before), self.steps / (learnt - before)


OURS, THEIRS = ("bare", "fedrl collecting", "fedrl training"), ("SB3 collecting", "SB3 training")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=250, help="of every row, in one roll-out")
    parser.add_argument("--trials", type=int, default=5)
    args = parse(parser, steps=16, trials=1)
    ours, theirs, names = Ours(args.steps), [], OURS
    if find_spec("stable_baselines3"):
        theirs, names = [Theirs(kind, args.steps) for kind in ("DummyVecEnv", "SubprocVecEnv")], OURS + THEIRS
    else:
        print("skipped: stable-baselines3 is not installed; pip install 'fedrl[bench]'")
    ours.trial(0)
    rows = []
    for number in range(1, args.trials + 1):
        fastest = np.max([one.trial() for one in theirs], axis=0) if theirs else ()
        rows.append((bare(args.steps), *ours.trial(number), *fastest))
        print("  ".join(f"{name} {value:8.0f}" for name, value in zip(names, rows[-1], strict=True)), "steps/s")
    for one in theirs:
        one.env.close()
    best = dict(zip(names, np.max(rows, axis=0), strict=True))
    print(f"fedrl collecting / bare mujoco.rollout: {best['fedrl collecting'] / best['bare']:.2f} (aim 0.80)")
    if theirs:
        print(f"fedrl collecting / SB3 collecting: {best['fedrl collecting'] / best['SB3 collecting']:.2f} (aim 2)")
        print(f"fedrl training / SB3 training: {best['fedrl training'] / best['SB3 training']:.2f} (aim 2)")


if __name__ == "__main__":
    main()
