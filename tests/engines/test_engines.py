"""One federation, several engines: fused `map` equals client-at-a-time to the bit, fused `vmap` within a tolerance."""

from functools import cache

import jax
import numpy as np
import pytest
from support.federations import environment, federation

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.tabular import random_mdp
from fedrl.evaluation import exact_return
from fedrl.federations.federation import Federation
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.selection.participation import uniform, weighted

STEPS = {"eta": 0.1, "local_steps": 3}
SAMPLING = {"horizon": 10, "batch": 2}
TOLERANCE = 2e-4  # of a parameter, after ROUNDS rounds in float32
ROUNDS = 6

METHODS = {
    "PAvg": pavg(**STEPS, **SAMPLING),
    "S-FedPG": s_fedpg(**STEPS, **SAMPLING),
    "RS-FedPG": rs_fedpg(lam=0.1, **STEPS, **SAMPLING),
    "RS-FedPG, one short step": rs_fedpg(lam=0.1, eta=0.1, local_steps=1, horizon=5, batch=2),
    "b-RS-FedPG": b_rs_fedpg(lam=0.1, **STEPS, **SAMPLING),
    "FedSVRPG-M": fedsvrpg_m(beta=0.3, first_batch=3, **STEPS, **SAMPLING),
    "FedSVRPG-M, lambda != eta K": fedsvrpg_m(beta=0.3, server_step=0.4, **STEPS, **SAMPLING),
    "Fed-Q-learning": fed_q_learning(samples=40, **STEPS),
    "alone": alone(gradient_learner(reinforce(**SAMPLING), **STEPS)),
    "uniform 3 of 5": pavg(**STEPS, **SAMPLING, selection=uniform(3)),
    "weighted 3 of 5": fedsvrpg_m(beta=0.5, **STEPS, **SAMPLING, selection=weighted(3)),
    "alone, 2 of 5": alone(gradient_learner(reinforce(**SAMPLING), **STEPS), selection=uniform(2)),
}


def end_state(method, engine, federation) -> list[np.ndarray]:
    algorithm = method(federation)
    play = engine(algorithm, federation, exact_return()(algorithm, federation), 2)
    state, opening = play.init([5, 6])
    state, first = play.advance(state, 0, 2)
    state, rest = play.advance(state, 2, ROUNDS - 2)
    return [_numbers(leaf) for leaf in jax.tree.leaves((state, opening, first, rest))]


def _numbers(leaf) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


@cache
def by_map(name: str) -> list[np.ndarray]:
    """The end state that everything else is compared with; compiled once per method."""
    return end_state(METHODS[name], fused("map"), _federation(name))


def _federation(name: str) -> Federation:
    return federation(5, weight=np.arange(1.0, 6.0, dtype=np.float32) if "weighted" in name else None)


@pytest.mark.parametrize("name", METHODS)
def test_engines_agree(name):
    for a, b in zip(by_map(name), end_state(METHODS[name], one_at_a_time(), _federation(name)), strict=True):
        assert a.tobytes() == b.tobytes()
    for a, b in zip(by_map(name), end_state(METHODS[name], fused("vmap"), _federation(name)), strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCE, rtol=TOLERANCE)


def test_drawn_worlds_agree_too():
    where = Federation(environment(), random_mdp.dense(4, 3, 0.5), clients=3)
    exact = end_state(METHODS["FedSVRPG-M"], fused("map"), where)
    for a, b in zip(exact, end_state(METHODS["FedSVRPG-M"], one_at_a_time(), where), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("lanes", [1, 3, 4, 7, 100])
def test_chunks_of_any_size(lanes):
    """However many lanes: same result within the tolerance, though clients and seeds do not divide evenly."""
    for a, b in zip(by_map("PAvg"), end_state(METHODS["PAvg"], fused("vmap", lanes=lanes), federation(5)), strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCE, rtol=TOLERANCE)


def test_settings_reach_the_worlds():
    """kappa given at run time draws the same worlds as kappa built in."""
    built_in = Federation(environment(), random_mdp.dense(4, 3, 0.5), clients=3)
    given = Federation(
        environment(), lambda key, i, kappa: random_mdp.dense(4, 3, kappa)(key, i), clients=3, settings=(0.5,)
    )
    for a, b in zip(
        end_state(METHODS["PAvg"], fused("map"), built_in), end_state(METHODS["PAvg"], fused("map"), given), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5)


def test_unknown_over():
    with pytest.raises(ValueError, match="'map' \\(exact\\) or 'vmap' \\(fast\\), got 'pmap'"):
        fused("pmap")
