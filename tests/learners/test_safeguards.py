"""The safeguards of FedSVRPG-M and FedHAPG-M, one by one against their equations, and off to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import environment, federation, random_mdps

from fedrl import train, trees
from fedrl.algorithms.fedhapg_m import fedhapg_m
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.environments.tabular import solvers
from fedrl.evaluation import exact_return
from fedrl.keys import of_seed
from fedrl.learners import safeguards
from fedrl.learners.hapg import hapg, on_segment
from fedrl.learners.reinforce import reinforce, reward_to_go
from fedrl.learners.safeguards import leave_one_out, storm
from fedrl.learners.svrpg import Anchor, importance_weight, svrpg
from fedrl.policies.softmax import softmax_table
from fedrl.types import Client

ENV = environment()
TABLE = softmax_table()(ENV)
WORLD = jax.tree.map(lambda x: x[0], random_mdps(1))
CLIENT = Client(jnp.int32(0), WORLD, (), ())
THETA, THETA_PREV, U = (0.7 * jax.random.normal(of_seed(seed), (4, 3)) for seed in (1, 2, 3))
ANCHOR, KEY = Anchor(THETA, THETA_PREV, U, round=jnp.int32(7)), of_seed(5)
METHODS = {"FedSVRPG-M": fedsvrpg_m, "FedHAPG-M": fedhapg_m}
SAMPLING = {"horizon": 8, "batch": 2}


def learnt(build, **settings) -> np.ndarray:
    """The direction at THETA from the same episodes for all settings; beta = 0.3."""
    make = {"beta": 0.3, "horizon": 6} | settings
    direction = build(**make)(ENV, TABLE)
    return np.asarray(direction.learn(THETA, ANCHOR, direction.sample(THETA, ANCHOR, CLIENT, KEY), CLIENT, KEY)[0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_limits_that_are_not_reached_change_no_bit(method, beta):
    def theta(**settings) -> bytes:
        build = METHODS[method](beta=beta, eta=0.1, local_steps=3, first_batch=2, **SAMPLING, **settings)
        return train(build, federation(3), rounds=3, seed=2, engine=fused("map")).theta.tobytes()

    assert theta(weight_limit=1e9, clip=1e9) == theta()
    assert theta(weight_limit=0.5, clip=0.1) != theta()


def test_weights_are_truncated():
    """Two settings differ by (1 - beta)(w - min(w, c)) g(theta_prev); c = 0.5 w halves the term."""
    direction = svrpg(beta=0.3, horizon=6)(ENV, TABLE)
    trajectory = direction.sample(THETA, ANCHOR, CLIENT, KEY)
    (w,) = np.asarray(importance_weight(TABLE, THETA_PREV, THETA, trajectory))
    g = np.asarray(reinforce(horizon=6)(ENV, TABLE).learn(THETA, (), trajectory, CLIENT, KEY)[0])
    old_term = g + 0.7 * np.asarray(U) - learnt(svrpg)
    halved = g + 0.7 * np.asarray(U) - learnt(svrpg, weight_limit=0.5 * float(w))
    assert np.abs(old_term).max() > 1e-3
    np.testing.assert_allclose(halved, 0.5 * old_term, atol=1e-5)


def test_hapg_truncates_the_weight_of_g_and_not_lambda():
    """As theta(alpha) -> theta_prev is far, w is not one; half of it halves beta w g, and Lambda stays as it is."""
    direction = hapg(beta=1.0, horizon=6)(ENV, TABLE)
    trajectory = direction.sample(THETA, ANCHOR, CLIENT, KEY)
    (w,) = np.asarray(importance_weight(TABLE, THETA, on_segment(THETA, THETA_PREV, KEY), trajectory))
    limit = 0.5 * float(w)
    np.testing.assert_allclose(learnt(hapg, beta=1.0, weight_limit=limit), 0.5 * learnt(hapg, beta=1.0), rtol=1e-4)
    for beta in (0.3, 0.6):
        missing = learnt(hapg, beta=beta) - learnt(hapg, beta=beta, weight_limit=limit)
        np.testing.assert_allclose(missing, beta * 0.5 * learnt(hapg, beta=1.0), atol=1e-5)


@pytest.mark.parametrize("build", [svrpg, hapg])
def test_directions_are_shortened_and_not_turned(build):
    free = learnt(build)
    length = np.linalg.norm(free)
    np.testing.assert_allclose(learnt(build, clip=0.5 * length), 0.5 * free, rtol=1e-5)
    np.testing.assert_array_equal(learnt(build, clip=2.0 * length), free)
    np.testing.assert_array_equal(safeguards.shortened(jnp.zeros(3), 1.0), jnp.zeros(3))


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_the_baseline_is_unbiased_and_calms(beta):
    """E u of Eq. (4) near theta_prev, where weights have a variance, to five standard errors."""
    env, before = environment(gamma=0.5), THETA + 0.2 * THETA_PREV
    exact = [np.asarray(solvers.gradient(TABLE, theta, WORLD, 0.5)) for theta in (THETA, before)]
    wanted = exact[0] + (1.0 - beta) * (np.asarray(U) - exact[1])
    variance = []
    for baseline in (None, leave_one_out):
        direction = svrpg(beta=beta, horizon=15, batch=4, baseline=baseline)(env, TABLE)
        anchor = ANCHOR._replace(theta_prev=before)

        def one(key, direction=direction, anchor=anchor):
            return direction.learn(THETA, anchor, direction.sample(THETA, anchor, CLIENT, key), CLIENT, key)[0]

        found = np.asarray(jax.lax.map(one, jax.random.split(of_seed(9), 8000), batch_size=1000))
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert np.all(np.abs(found.mean(axis=0) - wanted) <= 5 * error + 1e-4)
        variance.append(found.var(axis=0).sum())
    assert beta < 1.0 or variance[1] < 0.7 * variance[0]


def test_leave_one_out_by_hand():
    to_go = jnp.array([[1.0, 0.0], [3.0, 2.0], [5.0, 4.0]])[..., None]
    np.testing.assert_allclose(leave_one_out(to_go)[..., 0], [[4.0, 3.0], [3.0, 2.0], [2.0, 1.0]])
    direction = reinforce(horizon=3, batch=2)(ENV, TABLE)
    trajectory = direction.sample(THETA, (), CLIENT, KEY)
    plain = reward_to_go(ENV, TABLE, THETA, trajectory)
    np.testing.assert_allclose(safeguards.centred(plain, leave_one_out)[0], plain[0] - plain[1], rtol=1e-5)


@pytest.mark.parametrize("build", [svrpg, hapg])
def test_beta_decays_as_the_square_of_eta(build):
    """Round 7 after one: eta_7 = eta / 2 and beta_7 = beta / 4, in the direction of a step of size eta."""
    decay = storm(1.0)
    assert float(decay(jnp.int32(7))) == pytest.approx(0.5)
    assert float(decay(jnp.int32(0))) == 1.0
    np.testing.assert_allclose(
        learnt(build, beta=0.3, decay=decay), 0.5 * learnt(build, beta=0.075), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_server_divides_by_the_eta_of_the_round(method):
    """theta_{r+1} = theta_r + server_step eta_r K u_{r+1}."""
    where, decay = federation(3), storm(2.0)
    build = METHODS[method](beta=0.5, eta=0.1, local_steps=4, server_step=0.7, decay=decay, **SAMPLING)
    algorithm = build(where)
    engine = fused("map")(algorithm, where, exact_return()(algorithm, where), 1)
    state, _ = engine.init([0])
    for round in range(3):
        before = state.server
        state, _ = engine.advance(state, round, 1)
        eta = 0.1 * (1.0 + round / 2.0) ** (-1 / 3)
        moved = trees.subtract(state.server.theta, before.theta)
        np.testing.assert_allclose(moved, 0.7 * eta * 4 * state.server.kept.u, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("bad", "said"),
    [({"weight_limit": 0.0}, "weight_limit"), ({"clip": -1.0}, "clip"), ({"baseline": leave_one_out}, "batch=1")],
)
def test_bad_safeguards_are_refused(method, bad, said):
    with pytest.raises(ValueError, match=said):
        METHODS[method](beta=0.5, eta=0.1, local_steps=1, horizon=2, **bad)
