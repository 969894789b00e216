"""What executors are told: addresses of randomness, and the next round's first exchange before an evaluation."""

import jax
import numpy as np
import pytest
from support.engine_runs import SEEDS, end_state
from support.federations import federation
from support.remembering import remembering

from fedrl import keys
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.federated import federated
from fedrl.algorithms.fmarl import fmarl
from fedrl.algorithms.momentum_anchor import momentum_anchor
from fedrl.channels.graphs import ring
from fedrl.engines.driver import engine_of
from fedrl.engines.engine import Engine
from fedrl.engines.one_at_a_time import _in_this_process, one_at_a_time
from fedrl.evaluation import exact_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.selection.participation import uniform

FOUR = federation(4)
LEARNER = gradient_learner(reinforce(horizon=5, batch=2), eta=0.1, local_steps=2)
TWO = fedavg(LEARNER, selection=uniform(2))


def leaves(tree) -> list[bytes]:
    """All arrays, keys among them."""
    arrays = jax.tree.leaves(tree)
    is_key = [jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) for x in arrays]
    return [np.asarray(jax.random.key_data(x) if key else x).tobytes() for x, key in zip(arrays, is_key, strict=True)]


class Early:
    """Does the work of the next round's first exchange as soon as it hears of it, and hands it over when it is asked."""

    def __init__(self):
        self.told, self.asked, self.done, self.used = [], [], {}, 0

    def engine(self) -> Engine:
        def make(exchanges, faults, report_fault):
            inner = _in_this_process(exchanges, faults, report_fault)

            def look_ahead(exchange, requests, /):
                self.told.append(requests[0].address)
                self.done[requests[0].address] = requests, inner.execute(exchange, requests)

            def execute(exchange, requests, /):
                self.asked += requests
                if requests[0].address not in self.done:
                    return inner.execute(exchange, requests)
                told, results = self.done.pop(requests[0].address)
                self.used += 1
                for one, other in zip(told, requests, strict=True):
                    assert one.address == other.address
                    one, other = (request._replace(address=()) for request in (one, other))
                    assert jax.tree.structure(one) == jax.tree.structure(other)
                    assert leaves(one) == leaves(other)
                return results

            return inner._replace(execute=execute, look_ahead=look_ahead)

        return engine_of(make)


def test_work_done_ahead_ends_with_the_same_bytes():
    """Measured after rounds 2, 4 and 6 of six: the hints of the first two are used, for the third there is no round."""
    early = Early()
    ahead = end_state(TWO, early.engine(), FOUR, exact_return())
    assert ahead == end_state(TWO, one_at_a_time(), FOUR, exact_return())
    assert early.told == [("round", number, "train") for number in (2, 4, 6)]
    assert early.used == 2


def test_several_rounds_in_one_call_and_a_round_of_two_exchanges():
    """The first exchange of a round is a report here."""
    early = Early()
    method = fedavg(remembering(horizon=4), selection=fedpohcs(3, 2, sweeps=5))
    finals = []
    for engine in (early.engine(), one_at_a_time()):
        algorithm = method(FOUR)
        play = engine(algorithm, FOUR, exact_return()(algorithm, FOUR), 1)
        state, _ = play.advance(play.init(SEEDS)[0], 0, 3)
        finals.append(leaves(state))
    assert finals[0] == finals[1]
    assert early.told == [("round", number, "report") for number in (1, 2, 3)]
    assert early.used == 2


def test_no_hint_of_an_exchange_that_this_process_plays_itself():
    """Neighbours in lock step need no wire."""
    early = Early()
    end_state(fmarl(LEARNER, tau=2, graph=ring(4)), early.engine(), FOUR, exact_return(), rounds=2)
    assert early.told == []


def test_an_address_leads_to_the_key():
    """Of every exchange: openings, reports, training, measurements."""
    early = Early()
    rule = momentum_anchor(eta=0.5, local_steps=1, horizon=3, server_step=1.0, first_batch=2)
    method = federated(rule, remembering(horizon=4), selection=fedpohcs(3, 2, sweeps=5))
    end_state(method, early.engine(), FOUR, exact_return(), rounds=2)
    for request in early.asked:
        wanted = keys.of(request.seed, *request.address)
        assert (jax.random.key_data(request.key) == jax.random.key_data(wanted)).all()
    assert list(dict.fromkeys(request.address for request in early.asked)) == [
        ("opening", "opening-0"),
        ("opening", "first"),
        ("round", 0, "report"),
        ("round", 0, "train"),
        ("round", 1, "report"),
        ("round", 1, "train"),
        ("measure",),
    ]


def test_without_the_hint_no_requests_are_made(monkeypatch):
    monkeypatch.setattr("fedrl.engines.driver.make_requests", pytest.fail)
    end_state(TWO, one_at_a_time(), FOUR, exact_return(), rounds=2)
