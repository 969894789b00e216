"""Worker processes: the same bytes as in one process, however many there are and whoever of them dies."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from support.engine_runs import end_state, frozen_lakes, huge_rewards, within
from support.federations import federation
from support.remembering import remembering

import fedrl
from fedrl.algorithms.alone import alone
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines import local_processes as module
from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import EnvironmentFailed
from fedrl.evaluation import exact_return, sampled_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.selection.participation import uniform
from fedrl.types import Mode

STEPS = {"eta": 0.3, "local_steps": 2}
SAMPLING = {"horizon": 12, "batch": 2}
LAKE = pavg(**STEPS, **SAMPLING, selection=uniform(3))


@pytest.fixture(scope="module", autouse=True)
def _stop():
    yield
    module.stop()


@pytest.fixture(scope="module")
def lakes():
    """The lakes, and what thirty rounds on them end with."""
    where = frozen_lakes(4)
    return where, end_state(LAKE, one_at_a_time(), where, sampled_return(2), rounds=30)


TRACED = {
    "with an opening": (fedsvrpg_m(beta=0.3, first_batch=3, **STEPS, **SAMPLING), [2]),
    "with memories": (alone(gradient_learner(reinforce(**SAMPLING), **STEPS)), [1, 4]),
    "with reports": (fedavg(remembering(), selection=fedpohcs(4, 2, sweeps=20)), [2]),
    "with reports riding along": (fedavg(remembering(), selection=fedpohcs(4, 2, sweeps=20, phases=1)), [2]),
}


@pytest.mark.parametrize("name", TRACED)
def test_traced(name):
    """As the fused program, with 1, 2 and 4 workers."""
    method, counts = TRACED[name]
    exact = end_state(method, fused("map"), federation(5), exact_return(), rounds=4)
    for count in counts:
        run = within(240, lambda w=count: end_state(method, processes(w), federation(5), exact_return(), rounds=4))
        assert run == exact


def test_starting_workers_prints_nothing(capfd):
    module.stop()
    within(240, lambda: end_state(LAKE, processes(1), frozen_lakes(3), sampled_return(1), rounds=1))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("workers", [1, 4])
def test_simulators(lakes, workers):
    where, exact = lakes
    assert within(240, lambda: end_state(LAKE, processes(workers), where, sampled_return(2), rounds=30)) == exact


def test_seeds_of_one_client(tmp_path):
    """Two seeds of a federation with one client are two workers' work."""

    def make_env(client: int) -> gym.Env:
        (tmp_path / str(os.getpid())).touch()
        return gym.make("FrozenLake-v1")

    def end(engine):
        return end_state(pavg(**STEPS, **SAMPLING), engine, frozen_lakes(1, make_env), sampled_return(2), rounds=3)

    exact = end(one_at_a_time())
    assert [int(path.name) for path in tmp_path.iterdir()] == [os.getpid()]
    assert within(240, lambda: end(processes(2))) == exact
    assert {path.name for path in tmp_path.iterdir()} >= {
        str(worker.process.pid) for worker in module._pools[2].workers
    }


def test_killed_at_any_instant(lakes):
    """Ten kills in thirty rounds, some while a worker is still starting: same bytes, and no waiting for ever."""
    where, exact = lakes
    seeds = random.Random(1)
    delays = {number: [seeds.uniform(0, 0.06)] for number in seeds.sample(range(30), 7)}
    for number in seeds.sample(sorted(delays), 3):
        delays[number].append(seeds.uniform(0.3, 1.5))
    timers, killed = [], []

    def kill() -> None:
        pid = seeds.choice(module._pools[2].workers).process.pid
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    def before(number: int) -> None:
        for delay in delays.get(number, []):
            timers.append(threading.Timer(delay, kill))
            timers[-1].start()

    result = within(300, lambda: end_state(LAKE, processes(2), where, sampled_return(2), rounds=30, before=before))
    for timer in timers:
        timer.join()
    assert len(killed) == 10
    assert result == exact


def lake_with(step):
    """Lakes of which client 2's does something else when stepped."""

    class Odd(gym.Wrapper):
        def step(self, action):
            return step(super().step(action))

    def make_env(client: int) -> gym.Env:
        env = gym.make("FrozenLake-v1")
        return Odd(env) if client == 2 else env

    return frozen_lakes(4, make_env)


def run(where, engine) -> list[bytes]:
    return within(240, lambda: end_state(pavg(**STEPS, **SAMPLING), engine, where, sampled_return(2), rounds=1))


def test_an_environment_that_raises(lakes):
    """The error names the client and is of the same kind; the workers are usable afterwards."""

    def stuck(seen):
        raise OSError("the boat is stuck")

    with pytest.raises(EnvironmentFailed, match="client 2: step raised OSError: the boat is stuck"):
        run(lake_with(stuck), processes(2))
    pids = [worker.process.pid for worker in module._pools[2].workers]
    where, _ = lakes
    run(where, processes(2))
    assert [worker.process.pid for worker in module._pools[2].workers] == pids


def test_a_reward_that_is_not_a_number():
    with pytest.raises(EnvironmentFailed, match="client 2, copy 0: reward nan is not finite"):
        run(lake_with(lambda seen: (seen[0], np.nan, *seen[2:])), processes(2))


def test_a_huge_reward_warns_once_in_the_process_that_trains():
    with pytest.warns(UserWarning, match="client [01]: a reward of size 1e\\+12, beyond 1e\\+09") as warned:
        run(huge_rewards(2), processes(2))
    assert len(warned) == 1


def test_any_other_error():
    """What is not the environment's fault comes with the worker's traceback."""
    where = federation(3)

    def method(federation):
        algorithm = pavg(**STEPS, **SAMPLING)(federation)
        (train,) = algorithm.exchanges

        def sample(local, client, key):
            raise KeyError("no such world")

        local = train.local._replace(sample=sample, mode=Mode.SIMULATED)
        return algorithm._replace(exchanges=(train._replace(local=local),))

    with pytest.raises(RuntimeError, match="client 0, exchange 'train': KeyError: 'no such world'") as caught:
        within(240, lambda: end_state(method, processes(2), where, exact_return(), rounds=1))
    assert "in sample" in str(caught.value)


def test_work_that_kills():
    """A client whose environment takes the process with it is named, after three tries."""

    def crash(seen):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RuntimeError, match="3 workers in a row died at the work of client 2; .*fewer workers"):
        run(lake_with(crash), processes(2))


@pytest.fixture
def interruptible():
    """A shell's background jobs are started with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_run_after_one_that_was_interrupted(tmp_path):
    """Ctrl-C while a worker is busy; its late answer, of the same shape, must not be taken for the next run's."""
    busy = tmp_path / "busy"

    class Paid(gym.Wrapper):
        pause = 0.0

        def step(self, action):
            time.sleep(self.pause)
            seen, _, *over = super().step(action)
            return seen, 0.1 * action + 0.01 * seen, *over

    class Slow(Paid):
        pause = 0.05

        def step(self, action):
            busy.touch()
            return super().step(action)

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not busy.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    def learnt(env, seed: int, engine) -> list:
        where = frozen_lakes(2, lambda client: env(gym.make("FrozenLake-v1")))
        method = pavg(**STEPS, **SAMPLING)
        run = fedrl.train(method, where, rounds=1, seed=seed, evaluation=sampled_return(1), engine=engine)
        return [run.theta.tobytes(), *(row["return"] for row in run.rows)]

    wanted = [learnt(Paid, seed, one_at_a_time()) for seed in (1, 2)]
    assert all(a != b for a, b in zip(*wanted, strict=True))
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        learnt(Slow, 1, processes(2))
    thread.join()
    assert learnt(Paid, 2, processes(2)) == wanted[1]
    assert learnt(Paid, 1, processes(2)) == wanted[0]


def test_what_cannot_be_sent():
    lock = threading.Lock()

    def guarded(seen):
        with lock:
            return seen

    with pytest.raises(TypeError, match="cannot be sent to workers: .*lock.* inside the environment's `open`"):
        run(lake_with(guarded), processes(2))


def test_no_workers():
    with pytest.raises(ValueError, match="at least one worker, got 0"):
        processes(0)


RUN = """
import gymnasium as gym, fedrl
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.engines import local_processes as processes
from fedrl.federations.gymnasium_envs import gymnasium
from fedrl.evaluation import sampled_return

def make_env(client):
    return gym.make("FrozenLake-v1", success_rate=0.9 - 0.1 * client)

fedrl.train(pavg(eta=0.3, local_steps=1, horizon=8), gymnasium(make_env, 2, max_episode_steps=8), rounds=1,
            engine=processes.processes(2), evaluation=sampled_return(1))
print(*(worker.process.pid for worker in processes._pools[2].workers), flush=True)
"""
SLEEP = """
import time
from fedrl.engines import local_processes as processes
place = processes._pool(2)
workers = place.workers
assert all(place.inbox.get()[1] == b"ready" for worker in workers)
print(*(worker.process.pid for worker in workers), flush=True)
time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("how", ["killed", "done"])
def test_workers_end_with_the_main_process(tmp_path, how):
    """Killed, or come to its end after training, from a script without a guard and with a function of its own."""
    script = tmp_path / "mine.py"
    script.write_text(SLEEP if how == "killed" else RUN)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as main:
        pids = [int(word) for word in main.stdout.readline().split()]
        assert len(pids) == 2
        if how == "killed":
            assert all(map(alive, pids))
            main.kill()
        main.wait(30)
    deadline = time.monotonic() + 10
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, "a worker outlives the main process"
        time.sleep(0.05)
