"""A client's work in pieces, with acting outside the compiled program, is the work that `client_part` does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl import keys
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.engines.client_work import client_work
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import exact_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.trees import row
from fedrl.types import Mode

ROUND = keys.of_seed(3)


def slow_and_fast(client, key):
    """tau_i: none for client 0, one for client 1, …, as many as allowed at most."""
    return jnp.minimum(client.id, 3)


@pytest.mark.parametrize("steps_of", [None, slow_and_fast])
def test_in_pieces(steps_of):
    """Same draws, same steps: equal to rounding, as the pieces are other programs. A client stops at its tau_i."""
    where = federation(5)
    learner = gradient_learner(reinforce(horizon=10, batch=2), eta=0.1, local_steps=3, steps_of=steps_of)
    algorithm = fedavg(learner)(where)
    server = algorithm.init(keys.of_seed(0))
    clients = where.enrol(where.shared(), keys.of_seed(0), algorithm)
    (whole,) = algorithm.exchanges
    asked = whole.choose(server, ROUND)
    acts = []

    def sample(*given):
        acts.append(given)
        return jax.tree.map(np.asarray, jax.jit(whole.local.sample)(*given))

    pieces = whole._replace(local=whole.local._replace(sample=sample, mode=Mode.SIMULATED))
    rows = where.rows(where.shared(), clients, asked.ids)
    for slot in range(5):
        acts.clear()
        one, other = (client_work(e)(server, row(rows, slot), asked, np.int32(slot), ROUND) for e in (whole, pieces))
        assert len(acts) == (min(slot, 3) if steps_of else 3)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_rounds_that_are_not_measured():
    """Nobody acts for them, and their rows have the shapes of those that are."""
    where = federation(3)
    algorithm = pavg(eta=0.3, local_steps=2, horizon=4)(where)
    play = one_at_a_time()(algorithm, where, exact_return()(algorithm, where), 2)
    _, metrics = play.advance(play.init([0])[0], 0, 4)
    assert metrics["measure/returns"].shape == (1, 4, 3)
    np.testing.assert_array_equal(np.isnan(metrics["measure/return"][0]), [True, False, True, False])
