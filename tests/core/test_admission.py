"""Who counts in an exchange, on arrays small enough to see by eye."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.core.admission import ExchangeResult, Late, admit, eligible
from fedrl.core.client import WorkResult
from fedrl.faults import FaultCode, leave_out, stop
from fedrl.types import Client, Cohort, LocalUpdate

IDS = jnp.array([1, 4, 6])
LOCAL = LocalUpdate(*5 * (lambda *_: None,), local_steps=2, most_env_steps=5)


def cohort(weight=(0.5, 0.25, 0.25)) -> Cohort:
    return Cohort(IDS, jnp.array(weight), jnp.ones(3, bool), jnp.zeros(3, jnp.int32))


def result(
    uploads=((1.0, 2.0), (3.0, 4.0), (5.0, 6.0)), memory=(), env_steps=(10, 10, 0), codes=(0, 0, 0)
) -> ExchangeResult:
    work = WorkResult({"w": jnp.array(uploads)}, memory, jnp.array(env_steps), {})
    return ExchangeResult(Client(IDS, (), (), ()), work, (), jnp.array(codes, jnp.int32))


def admitted(came: ExchangeResult, local: LocalUpdate = LOCAL, rule=stop(), in_a_row=None):
    counts = jnp.zeros(8, jnp.int32) if in_a_row is None else in_a_row
    return admit(rule, local, cohort(), cohort(), came, counts)


def test_all_of_them():
    """Every bit of uploads and weights stays as it was."""
    done = admitted(result())
    assert done.uploads["w"].tobytes() == result().work.upload["w"].tobytes()
    assert done.cohort.weight.tobytes() == cohort().weight.tobytes()
    assert done.fault_codes.tolist() == [0, 0, 0]


SIX = ((1.0, 2.0), (3.0, 4.0), (5.0, np.nan))
CASES = {
    "not finite": (result(SIX), LOCAL, stop(), FaultCode.NOT_FINITE),
    "infinite": (result(((1.0, 2.0), (3.0, 4.0), (-np.inf, 0.0))), LOCAL, stop(), FaultCode.NOT_FINITE),
    "memory": (result(memory={"v": jnp.array([0.0, 0.0, jnp.nan])}), LOCAL, stop(), FaultCode.MEMORY),
    "too many steps": (result(env_steps=(10, 10, 11)), LOCAL, stop(), FaultCode.STEPS),
    "fewer steps than none": (result(env_steps=(10, 10, -1)), LOCAL, stop(), FaultCode.STEPS),
    "norm": (result(), LOCAL, stop(largest_norm=7.0), FaultCode.NORM),  # 5, 25 and 61 squared
    "norm of what moves": (
        result(), LOCAL._replace(moved=lambda upload: upload["w"][..., 1]),
        stop(largest_norm=4.5), FaultCode.NORM,
    ),
    "impossible": (
        result(), LOCAL._replace(possible=lambda upload, client: upload["w"][0] < 5.0),
        stop(), FaultCode.IMPOSSIBLE,
    ),
    "noticed by the engine": (result(SIX, codes=(0, 0, FaultCode.LATE)), LOCAL, stop(), FaultCode.LATE),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_that_does_not_count(case):
    """Client 6 becomes zeros, its weight goes to the others, its steps are not counted, its faults are."""
    came, local, rule, code = CASES[case]
    done = admitted(came, local, rule, jnp.arange(8))
    assert done.fault_codes.tolist() == [0, 0, code]
    assert done.uploads["w"].tolist() == [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
    assert done.cohort.present.tolist() == [True, True, False]
    np.testing.assert_allclose(done.cohort.weight, [2 / 3, 1 / 3, 0.0], rtol=1e-6)
    assert done.env_steps.tolist() == [10, 10, 0]
    assert done.in_a_row.tolist() == [0, 0, 2, 3, 0, 5, 7, 7]


def late(staleness, discount) -> Late:
    return Late(jnp.array(staleness, jnp.int32), jnp.array(discount, jnp.float32))


def test_late_answers_weigh_less():
    """1/2, 1/4, 1/4 times 1, 1/2, 1/4 are 8, 2 and 1 of 11 parts."""
    done = admitted(result()._replace(late=late([0, 1, 3], [1, 1 / 2, 1 / 4])))
    np.testing.assert_allclose(done.cohort.weight, [8 / 11, 2 / 11, 1 / 11], rtol=1e-6)
    assert done.cohort.staleness.tolist() == [0, 1, 3]
    assert done.cohort.present.all()


def test_a_late_answer_that_does_not_count_has_no_weight_whatever_its_factor():
    done = admitted(result(SIX)._replace(late=late([1, 0, 4], [1 / 2, 1, np.nan])), rule=leave_out())
    np.testing.assert_allclose(done.cohort.weight, [1 / 2, 1 / 2, 0.0], rtol=1e-6)


@pytest.mark.parametrize("came", [result(), result(SIX)], ids=["all", "two"])
def test_answers_in_time_weigh_what_they_would(came):
    """Every bit, with weights that a renormalisation would change."""
    uneven = cohort((0.3, 0.45, 0.7))
    counts = jnp.zeros(8, jnp.int32)
    without, zero = (
        admit(leave_out(), LOCAL, uneven, uneven, one, counts)
        for one in (came, came._replace(late=late([0, 0, 0], [1, 1, 1])))
    )
    assert zero.cohort.weight.tobytes() == without.cohort.weight.tobytes()


def test_steps_without_a_known_limit():
    assert admitted(result(env_steps=(10, 10, 1_000_000)), LOCAL._replace(most_env_steps=0)).fault_codes.tolist() == [
        0,
        0,
        0,
    ]


def test_those_with_too_many_faults_are_not_asked():
    counts = jnp.array([9, 3, 0, 0, 2, 0, 0, 0])
    left = eligible(leave_out(in_a_row=3), cohort(), {"report": jnp.zeros_like(counts), "train": counts})
    assert left.present.tolist() == [False, True, True]
    assert left.weight.tolist() == [0.0, 0.5, 0.5]
    assert eligible(stop(), cohort(), counts).present.all()
    done = admit(leave_out(in_a_row=3), LOCAL, cohort(), left, result(), counts)
    assert done.fault_codes.tolist() == [FaultCode.NOT_ASKED, 0, 0]
    assert done.in_a_row.tolist() == [9, 3, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("quorum", "asked", "needed"),
    [(1, 4, 1), (3, 4, 3), (9, 4, 4), (0.5, 4, 2), (0.51, 4, 3), (0.1, 30, 3), (1.0, 3, 3)],
)
def test_the_quorum(quorum, asked, needed):
    assert leave_out(quorum=quorum).required(asked) == needed
    assert stop().required(asked) == asked
