"""Ray actors: the same bytes as in one process, also when actors die."""

import os
import random
import signal
import sys
import threading
import time

import pytest
from support.engine_runs import end_state, frozen_lakes, huge_rewards, within
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines import ray_cluster as module
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.engines.ray_cluster import ray
from fedrl.environments.errors import EnvironmentFailed
from fedrl.evaluation import exact_return, sampled_return
from fedrl.faults import leave_out

pytest.importorskip("ray")

STEPS = {"eta": 0.3, "local_steps": 2}
SAMPLING = {"horizon": 12, "batch": 2}
LAKE = pavg(**STEPS, **SAMPLING)


@pytest.fixture(scope="module", autouse=True)
def _stop():
    """Ray is started here because its servers end with the thread that started them, and `within` has one for each test."""
    module._pool(None, 2)
    yield
    module.stop()


def test_traced():
    method = fedsvrpg_m(beta=0.3, first_batch=3, **STEPS, **SAMPLING)
    exact = end_state(method, fused("map"), federation(5), exact_return())
    assert within(300, lambda: end_state(method, ray(workers=2), federation(5), exact_return())) == exact


def test_simulators_and_dying_actors():
    """Four kills in twelve rounds."""
    where = frozen_lakes(3)
    exact = end_state(LAKE, one_at_a_time(), where, sampled_return(2), rounds=12)
    seeds = random.Random(2)
    delays = {number: seeds.uniform(0, 0.1) for number in seeds.sample(range(12), 4)}
    killers = []

    def kill(delay: float) -> None:
        time.sleep(delay)
        actors = module._pools[None, 2]
        actors.ray.kill(seeds.choice(actors.actors))

    def before(number: int) -> None:
        if number in delays:
            killers.append(threading.Thread(target=kill, args=(delays[number],)))
            killers[-1].start()

    def play() -> list[bytes]:
        return end_state(LAKE, ray(workers=2), where, sampled_return(2), rounds=12, before=before)

    assert within(300, play) == exact
    for killer in killers:
        killer.join()
    assert len(killers) == 4


def test_an_environment_that_cannot_be_made():
    import gymnasium as gym

    def make_env(client: int) -> gym.Env:
        if client == 2:
            raise OSError("no water")
        return gym.make("FrozenLake-v1")

    where = frozen_lakes(3, make_env)
    with pytest.raises(EnvironmentFailed, match="client 2: make_env raised OSError: no water"):
        within(300, lambda: end_state(LAKE, ray(workers=2), where, sampled_return(2), rounds=1))


def test_a_huge_reward_warns_once_in_the_process_that_trains():
    with pytest.warns(UserWarning, match="a reward of size 1e\\+12, beyond 1e\\+09") as warned:
        within(300, lambda: end_state(LAKE, ray(workers=2), huge_rewards(2), sampled_return(2), rounds=1))
    assert len(warned) == 1


def test_no_workers():
    with pytest.raises(ValueError, match="at least one worker, got 0"):
        ray(workers=0)


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install 'fedrl\\[ray\\]'"):
        ray()


def test_actors_that_hang_or_are_stopped(tmp_path):
    """Client 1 hangs in a step, once; then an actor is stopped. Both are left out, and the actors replaced."""
    import gymnasium as gym

    class Slow(gym.Wrapper):
        def step(self, action):
            if not (tmp_path / "hung").exists():
                (tmp_path / "hung").touch()
                time.sleep(3600)
            return super().step(action)

    where = frozen_lakes(2, lambda client: (Slow if client else lambda env: env)(gym.make("FrozenLake-v1")))
    stopped = []

    def freeze(row, rounds):
        if row.get("faults") and not stopped:
            actors = module._pools[None, 2]
            stopped.append(actors.ray.get(actors.arrivals[0])[1])
            os.kill(stopped[0], signal.SIGSTOP)

    run = within(
        400,
        lambda: fedrl.train(
            pavg(eta=0.3, local_steps=1, horizon=8), where, rounds=4, engine=ray(workers=2), callback=freeze,
            evaluation=sampled_return(1), faults=leave_out(deadline=3.0, in_a_row=9), warn=lambda _: None,
        ),
    )  # fmt: skip
    assert stopped
    left_out = [who for row in run.rows for who in row.get("left_out", [])]
    assert left_out[0]["client"] == 1
    assert len(left_out) == 2
    assert all(who["why"].startswith("it did not answer by the deadline") for who in left_out)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{stopped[0]}"):
        assert time.monotonic() < deadline, "a stopped actor is still there"
        time.sleep(0.1)
