"""Slow links against a few rounds by hand (about 20 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl.algorithms.fedavg import fedavg
from fedrl.channels.delays import delayed
from fedrl.engines.fused import fused
from fedrl.evaluation import exact_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.selection.candidates import uniform_of
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.types import LocalUpdate

LEARNER = gradient_learner(reinforce(horizon=10, batch=2), eta=0.3, local_steps=2)


def halving(environment):
    """A learner whose one step goes half the way to zero: theta of round r shows what it was computed from."""
    learns = LEARNER(environment)

    def estimate(local, seen, client, key):
        return jax.tree.map(lambda x: -0.5 * x, local.theta), local

    local: LocalUpdate = learns.local._replace(
        estimate=estimate,
        apply=lambda local, direction, client: local._replace(theta=local.theta + direction),
        local_steps=1,
    )
    return learns._replace(local=local, init=lambda key: jnp.ones_like(learns.init(key)))


def thetas(method, rounds: int) -> list[float]:
    where = federation(2)
    algorithm = method(where)
    play = fused("map")(algorithm, where, exact_return()(algorithm, where), 100)
    state, _ = play.init([0])
    found = []
    for number in range(rounds):
        state, _ = play.advance(state, number, 1)
        found.append(float(np.asarray(jax.vmap(algorithm.answer)(state.server)).ravel()[0]))
    return found


@pytest.mark.parametrize(("up", "down", "every"), [(0, 1, 1), (1, 0, 1), (2, 1, 1), (1, 2, 3), (0, 0, 2)])
def test_by_hand(up, down, every):
    rounds = 9
    server, sent = [1.0], []  # server[r] is the model at the start of round r
    for r in range(rounds):
        sent.append(-0.5 * server[max(0, (r // every) * every - down)])
        server.append(server[-1] + (sent[r - up] if r >= up else 0.0))
    got = thetas(delayed(fedavg(halving), up=up, down=down, every=every), rounds)
    np.testing.assert_allclose(got, server[1:], rtol=1e-5)


def test_no_delay_is_the_method_itself():
    method = fedavg(LEARNER)
    assert delayed(method) is method


def test_what_cannot_be_delayed_is_named():
    with pytest.raises(ValueError, match="delays need up >= 0, down >= 0 and every >= 1"):
        delayed(fedavg(LEARNER), up=-1)
    from support.remembering import remembering

    two_phases = fedavg(remembering(), selection=fedpohcs(2, 1, sweeps=3))
    with pytest.raises(ValueError, match="one exchange a round, this one has more"):
        delayed(two_phases, up=1)(federation(3))
    delayed(fedavg(LEARNER, selection=uniform_of(2, 1)), up=1)(federation(3))
