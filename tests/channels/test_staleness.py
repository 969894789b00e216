"""Late answers: the factors by hand, what the answers of three clients then weigh, and no change where nobody is late."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl.algorithms.fedavg import pavg
from fedrl.channels import hinge, inverse, polynomial
from fedrl.core.admission import Late
from fedrl.core.round import WorkRequest
from fedrl.engines.driver import engine_of
from fedrl.engines.engine import Engine
from fedrl.engines.one_at_a_time import _in_this_process, one_at_a_time
from fedrl.environments.errors import EnvironmentFailed
from fedrl.evaluation import exact_return
from fedrl.faults import leave_out

STALENESS = jnp.array([0, 1, 3], jnp.int32)
METHOD = pavg(eta=0.1, local_steps=2, horizon=5, batch=2)
UNEQUAL = federation(3, weight=np.array([2.0, 1.0, 1.0], np.float32))


@pytest.mark.parametrize(
    ("discount", "factors"),
    [
        (inverse, [1.0, 1 / 2, 1 / 4]),
        (polynomial(1), [1.0, 1 / 2, 1 / 4]),
        (polynomial(0.5), [1.0, 2**-0.5, 1 / 2]),
        (polynomial(0), [1.0, 1.0, 1.0]),
        (hinge(10, 1), [1.0, 1.0, 1 / 21]),
        (hinge(1, 0), [1.0, 1 / 2, 1 / 4]),
    ],
)
def test_factors_by_hand(discount, factors):
    found = discount(STALENESS)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, factors, rtol=1e-6)
    assert float(found[0]) == 1.0
    np.testing.assert_array_equal(discount(np.asarray(STALENESS)), found)


def answering(staleness, discount=inverse) -> Engine:
    """Client after client, whose answers in training are taken to be so old."""

    def make(exchanges, faults, report_fault):
        inner = _in_this_process(exchanges, faults, report_fault)

        def late(request: WorkRequest) -> Late:
            age = jnp.asarray(staleness, jnp.int32)[request.cohort.ids]
            return Late(age, discount(age))

        def execute(exchange, requests, /):
            results = inner.execute(exchange, requests)
            if exchange.name != "train":
                return results
            return [result._replace(late=late(request)) for request, result in zip(requests, results, strict=True)]

        return inner._replace(execute=execute)

    return engine_of(make)


def displaced(method, engine: Engine, where) -> tuple[np.ndarray, dict]:
    """By how much theta moves in the first round, and its metrics."""
    algorithm = method(where)
    play = engine(algorithm, where, exact_return()(algorithm, where), 1, leave_out())
    before = play.init([0])[0]
    after, metrics = play.advance(before, 0, 1)
    play.close()
    return np.asarray(after.server.theta - before.server.theta)[0], metrics


def of_one(client: int) -> np.ndarray:
    """What this client uploads in the first round: nobody else counts."""
    alone = np.zeros(3, np.float32)
    alone[client] = 1.0
    return displaced(METHOD, answering([0, 0, 0], lambda age: jnp.asarray(alone)), UNEQUAL)[0]


def test_three_answers_by_hand():
    """Weights 1/2, 1/4, 1/4 times 1, 1/2, 1/4 are 8, 2 and 1 of 11 parts."""
    moved, metrics = displaced(METHOD, answering([0, 1, 3]), UNEQUAL)
    np.testing.assert_allclose(moved, sum(x * of_one(i) for i, x in enumerate((8 / 11, 2 / 11, 1 / 11))), atol=1e-6)
    assert metrics["train/stale"].tolist() == [[2]]
    assert metrics["train/answered"].tolist() == [[3]]
    assert "measure/stale" not in metrics


def test_a_rule_sees_how_old_they_are():
    """`combine` gets the cohort with the staleness of the answers."""
    seen = []

    def combine(uploads, cohort):
        seen.append(cohort.staleness)
        return jnp.sum(uploads * (cohort.staleness == 3).astype(uploads.dtype)[:, None, None], axis=0)

    method = pavg(eta=0.1, local_steps=2, horizon=5, batch=2, combine=combine)
    moved, _ = displaced(method, answering([0, 1, 3]), UNEQUAL)
    np.testing.assert_allclose(moved, of_one(2), atol=1e-6)
    assert seen


def played(engine: Engine, rounds: int = 4) -> tuple[list[bytes], dict[str, bytes], dict]:
    """All that a run of two seeds ends with: its state, its metrics, and how many answers were late."""
    where = federation(3, weight=np.array([0.3, 0.45, 0.7], np.float32))
    algorithm = METHOD(where)
    play = engine(algorithm, where, exact_return()(algorithm, where), 2)
    state, metrics = play.advance(play.init([5, 6])[0], 0, rounds)
    play.close()
    stale = {name: metrics.pop(name) for name in list(metrics) if name.endswith("/stale")}
    state = state._replace(key=(), clients=state.clients._replace(key=()))
    as_bytes = [np.asarray(x).tobytes() for x in jax.tree.leaves(state)]
    return as_bytes, {name: np.asarray(value).tobytes() for name, value in metrics.items()}, stale


@pytest.mark.parametrize("staleness", [[0, 0, 0], [0, 2, 1]])
def test_where_nobody_is_discounted_every_bit_is_as_without(staleness):
    """Weights that a renormalisation would change; only the count of late answers is new."""
    state, metrics, without = played(one_at_a_time())
    late_state, late_metrics, late = played(answering(staleness, polynomial(0)))
    assert (late_state, late_metrics) == (state, metrics)
    assert not without
    assert {name: value.tolist() for name, value in late.items()} == {
        "train/stale": [[np.count_nonzero(staleness)] * 4] * 2
    }


def test_of_equally_late_answers_the_discount_cancels():
    late, punctual = (displaced(METHOD, answering(age), UNEQUAL)[0] for age in ([2, 2, 2], [0, 0, 0]))
    np.testing.assert_allclose(late, punctual, atol=1e-7)


def test_where_all_factors_are_zero_nobody_answered():
    with pytest.raises(EnvironmentFailed, match="0 of 3 clients are left, the quorum is 1"):
        displaced(METHOD, answering([1, 1, 1], lambda age: jnp.zeros(3)), UNEQUAL)
