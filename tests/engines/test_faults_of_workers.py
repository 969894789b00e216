"""Clients that raise, hang or are stopped, on worker processes and Ray actors: noticed in time, and left out."""

import os
import signal
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from support.engine_runs import frozen_lakes, within

import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import ring
from fedrl.engines import local_processes as module
from fedrl.engines import worker_process
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.engines.work_batches import WorkBatch
from fedrl.engines.worker import READY
from fedrl.environments.errors import EnvironmentFailed
from fedrl.evaluation import sampled_return
from fedrl.faults import FaultCode, leave_out, stop
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce

pytestmark = pytest.mark.usefixtures("travelling")
LAKE = pavg(eta=0.3, local_steps=1, horizon=8)
BAD = 1


def lakes(step=None, clients=3):
    """Lakes that pay for every step, of which client BAD's does something else when stepped."""

    class Paid(gym.Wrapper):
        def __init__(self, env, client):
            super().__init__(env)
            self.client = client

        def step(self, action):
            if step and self.client == BAD:
                step()
            seen, _, *rest = super().step(action)
            return seen, (1.0 + action) / (1.0 + self.client), *rest

    return frozen_lakes(clients, lambda client: Paid(gym.make("FrozenLake-v1"), client))


def hang():
    time.sleep(3600)


def stuck():
    raise OSError("the boat is stuck")


def play(where, engine, faults=None, rounds=3, **options):
    return within(
        300,
        lambda: fedrl.train(
            LAKE, where, rounds=rounds, engine=engine, faults=faults, evaluation=sampled_return(1), warn=lambda _: None,
            **options,
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def raising():
    """What one_at_a_time makes of a client that raises."""
    return play(lakes(stuck), one_at_a_time(), leave_out(in_a_row=2))


def same(one, other) -> None:
    assert one.theta.tobytes() == other.theta.tobytes()
    for a, b in zip(one.rows, other.rows, strict=True):
        assert [who["client"] for who in a.get("left_out", [])] == [who["client"] for who in b.get("left_out", [])]
        assert a.get("not_asked") == b.get("not_asked")


def test_one_that_raises(raising):
    """The others' work counts, although a worker has several clients; the log says what was raised."""
    run = play(lakes(stuck), processes(1), leave_out(in_a_row=2))
    same(run, raising)
    train = next(who for who in run.rows[1]["left_out"] if who["exchange"] == "train")
    assert train["why"].startswith("it raised an error (client 1: step raised OSError: the boat is stuck")
    assert np.abs(run.theta).max() > 0
    assert run.rows[3]["not_asked"] == [{"seed": 0, "client": BAD}]
    assert np.isnan(run.returns[0, BAD])


def test_one_that_hangs(raising):
    """As one that raises, some seconds later; its worker is another one then."""
    play(lakes(), processes(1), rounds=1)
    pid = module._pools[1].workers[0].process.pid
    same(play(lakes(hang), processes(1), leave_out(in_a_row=2, deadline=2.0)), raising)
    assert module._pools[1].workers[0].process.pid != pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_run_stops_at_one_that_hangs():
    with pytest.raises(EnvironmentFailed, match="client 1, exchange 'measure': no answer within the deadline of 2 s"):
        play(lakes(hang), processes(1), stop(deadline=2.0))


def test_a_worker_that_is_stopped():
    """SIGSTOP in the second round, when everything is compiled: one client is left out of one exchange."""
    stopped = []

    def freeze(row, rounds):
        if row["round"] == 1:
            stopped.append(module._pools[1].workers[0].process.pid)
            os.kill(stopped[0], signal.SIGSTOP)

    run = play(lakes(), processes(1), leave_out(deadline=3.0), callback=freeze, rounds=4)
    assert run.rows[-1]["faults"] == 1
    (late,) = [who for row in run.rows for who in row.get("left_out", [])]
    assert late["why"].startswith("it did not answer by the deadline")
    with pytest.raises(ProcessLookupError):
        os.kill(stopped[0], 0)


def test_a_worker_that_is_stopped_before_a_long_message():
    """More than the connection holds: nobody but a thread waits for it to be taken."""
    place = module.Processes(1)
    try:
        assert place.inbox.get(timeout=300)[1] == READY
        (worker,) = place.workers
        worker.ready = True
        worker.knows.add(0)
        os.kill(worker.process.pid, signal.SIGSTOP)
        place.submit(0, WorkBatch(0, b"", "train", b"", b"", bytes(8_000_000)))
        assert within(20, lambda: place.wait(1.0)) == [(0, FaultCode.LATE)]
        assert place.workers[0] is not worker
    finally:
        place.stop()


def closing(how):
    """Lakes whose environments do something else when they are closed."""

    class Closing(gym.Wrapper):
        def close(self):
            how()

    return frozen_lakes(2, lambda client: Closing(gym.make("FrozenLake-v1")))


def test_an_environment_that_cannot_be_closed():
    """The run is there all the same, and the next one is not disturbed."""
    calls = []  # the federation itself looks at an environment and closes it

    def once_open():
        calls.append(1)
        if len(calls) > 1:
            raise OSError("the lid is stuck")

    with pytest.warns(UserWarning, match="client .: close raised OSError: the lid is stuck; fix its close"):
        run = play(closing(once_open), one_at_a_time(), rounds=1)
    assert run.rows[-1]["round"] == 1
    play(lakes(), one_at_a_time(), rounds=1)


def test_an_environment_whose_close_hangs(monkeypatch):
    """Its worker is replaced; the next run need not wait for it."""
    monkeypatch.setattr(worker_process, "PATIENCE", 1.0)
    calls = []

    def first_only():
        calls.append(1)
        if len(calls) > 1:
            time.sleep(3600)

    play(closing(first_only), processes(1), rounds=1)
    pid = module._pools[1].workers[0].process.pid
    play(lakes(), processes(1), rounds=1)
    assert module._pools[1].workers[0].process.pid != pid


def test_one_that_raises_among_neighbours():
    """Clients that go step by step, each with its own simulator: one is left out, and the log says why in each round."""
    calls = []

    def counting():
        calls.append(1)
        raise OSError(f"stuck for the {len(calls)}. time")

    talking = fmarl(
        gradient_learner(reinforce(horizon=8, batch=1), eta=0.3, local_steps=1), tau=2, graph=ring(3), epsilon=0.1
    )
    with pytest.raises(EnvironmentFailed, match="client 1: step raised OSError: stuck for the 1. time"):
        fedrl.train(
            talking, lakes(counting), rounds=1, engine=one_at_a_time(), evaluation=sampled_return(1), eval_every=9
        )
    run = fedrl.train(
        talking, lakes(counting), rounds=3, engine=one_at_a_time(), evaluation=sampled_return(1), eval_every=9,
        faults=leave_out(in_a_row=9), warn=lambda _: None,
    )  # fmt: skip
    train = [who["why"] for row in run.rows[1:] for who in row["left_out"] if who["exchange"] == "train"]
    assert len(train) == len(set(train)) == 3
    assert np.isfinite(run.theta).all()
    assert np.abs(run.theta).max() > 0
    with pytest.raises(
        ValueError, match="exchange 'train' goes step by step, .* no deadline can be kept; drop deadline=9"
    ):
        fedrl.train(talking, lakes(), rounds=1, engine=processes(1), faults=leave_out(deadline=9))


def test_an_abandoned_run_leaves_nothing_behind():
    """Interrupted while both workers are busy; the next run, which needs one of them, hears only its own answers."""
    place = module._pool(2)
    busy = threading.Event()
    wait = place.wait

    def interrupted(deadline):
        if all(worker.batch and worker.ready for worker in place.workers):
            busy.set()
            raise KeyboardInterrupt
        return wait(deadline)

    place.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        play(lakes(), processes(2), rounds=2)
    place.wait = wait
    assert busy.is_set()
    exact = play(lakes(clients=1), one_at_a_time(), rounds=1)
    assert play(lakes(clients=1), processes(2), rounds=1).theta.tobytes() == exact.theta.tobytes()
