"""What `exact_objective` logs, against sums by hand, finite differences and rounds of exact steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys, train
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg
from fedrl.environments.control import cart_pole
from fedrl.environments.tabular import finite, random_mdp, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.evaluation import exact_return
from fedrl.exact_objective import exact_objective
from fedrl.federations.federation import Federation
from fedrl.learners.exact_gradient import exact_gradient
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.policies.mlp import mlp
from fedrl.policies.softmax import softmax_table

GAMMA, LAM, ETA, STEPS = 0.8, 0.3, 0.5, 3
WEIGHT = np.array([0.5, 0.25, 0.25])


def worlds(actions: int = 2) -> Federation:
    mdps = [random_mdp.dense(3, actions, 0.7)(keys.of_seed(2), i) for i in range(3)]
    return Federation(finite.environment(3, actions, GAMMA), mdps, weight=jnp.asarray(WEIGHT))


def first_row(method, evaluation, where=None) -> dict:
    return train(method, where or worlds(), rounds=1, evaluation=evaluation, warn=lambda *_: None).rows[0]


def exact_steps(local_steps: int = STEPS, **policy):
    return fedavg(gradient_learner(exact_gradient(lam=LAM), eta=ETA, local_steps=local_steps, **policy))


def softmax_at(theta):
    return softmax_table(lambda key, shape: jnp.asarray(theta, jnp.float32).reshape(shape))


THETA = np.array([[0.3, -0.2], [1.0, 0.0], [-0.5, 0.7]])


@pytest.fixture(scope="module")
def row():
    """Round 0 is measured before anything is learnt: at THETA."""
    evaluation = exact_objective(LAM, eta=ETA, local_steps=STEPS, gap=True)
    return train(exact_steps(policy=softmax_at(THETA)), worlds(), rounds=1, evaluation=evaluation).rows


def exact(theta, lam: float = LAM):
    """J_r of each client [3] and its gradient [3, S, A]."""
    where = worlds()
    policy = softmax_table()(where.environment)
    at = jnp.asarray(theta, jnp.float32)
    each = jax.vmap(lambda mdp: solvers.objective(policy, at, mdp, GAMMA, lam))
    slopes = jax.vmap(lambda mdp: solvers.gradient(policy, at, mdp, GAMMA, lam))
    return np.asarray(each(where.env_params)), np.asarray(slopes(where.env_params))


def test_objective_and_gradient(row):
    values, slopes = exact(THETA)
    mean = np.einsum("c,csa->sa", WEIGHT, slopes)
    np.testing.assert_allclose(row[0]["returns"], values, rtol=1e-5)
    np.testing.assert_allclose(row[0]["return"], WEIGHT @ values, rtol=1e-5)
    np.testing.assert_allclose(row[0]["gradient_norm"], np.linalg.norm(mean), rtol=1e-4)
    apart = [np.linalg.norm(slope - mean) for slope in slopes]
    np.testing.assert_allclose(row[0]["heterogeneity"], max(apart), rtol=1e-4)


def test_drift_is_what_a_round_of_exact_steps_does_wrong(row):
    """Server: theta + eta H (grad F + drift)."""
    _, slopes = exact(THETA)
    mean = np.einsum("c,csa->sa", WEIGHT, slopes)
    run = train(exact_steps(policy=softmax_at(THETA)), worlds(), rounds=1, evaluation=exact_return())
    moved = (np.asarray(run.theta) - THETA) / (ETA * STEPS)
    np.testing.assert_allclose(row[0]["drift"], np.linalg.norm(moved - mean), rtol=1e-3)
    assert row[0]["drift"] > 0.01
    local = [THETA for _ in range(3)]
    squares = []
    for _ in range(STEPS):
        now = [exact(theta)[1][c] for c, theta in enumerate(local)]
        squares.append(WEIGHT @ [np.sum((slope - own) ** 2) for slope, own in zip(now, slopes, strict=True)])
        local = [theta + ETA * slope for theta, slope in zip(local, now, strict=True)]
    assert row[0]["drift"] ** 2 <= np.mean(squares)  # the left side of Lemma C.1


def test_one_local_step_has_no_drift():
    row = first_row(exact_steps(1), exact_objective(LAM, eta=ETA))
    assert row["drift"] == 0.0


def test_gap_closes_where_all_clients_are_alike():
    mdp = random_mdp.dense(3, 2, 0.0)(keys.of_seed(2), 0)
    where = Federation(finite.environment(3, 2, GAMMA), [mdp, mdp])
    run = train(exact_steps(), where, rounds=200, evaluation=exact_objective(LAM, gap=True), eval_every=200)
    first, last = run.rows[0], run.rows[-1]
    assert first["gap"] > 0.05
    assert abs(last["gap"]) < 1e-5
    assert last["gradient_norm"] < 1e-3
    np.testing.assert_allclose(first["return"] + first["gap"], last["return"] + last["gap"], rtol=1e-5)


def test_bit_level_policies_are_measured_by_j_b():
    where = worlds(actions=4)
    method = b_rs_fedpg(eta=0.1, local_steps=1, horizon=2, batch=1, lam=LAM)
    row = first_row(method, exact_objective(LAM, gap=True), where)
    policy = method(where).policy
    values = jax.vmap(lambda mdp: solvers.objective(policy, jnp.zeros((3, 3, 2)), mdp, GAMMA, LAM))(where.env_params)
    np.testing.assert_allclose(row["returns"], values, rtol=1e-5)
    assert row["gap"] > 0.0


def test_without_regularisation_it_is_the_return():
    method = pavg(eta=0.1, local_steps=1, horizon=2)
    objective, plain = (first_row(method, evaluation) for evaluation in (exact_objective(), exact_return()))
    np.testing.assert_allclose(objective["returns"], plain["returns"], rtol=1e-6)
    assert "gap" not in objective


def test_what_cannot_be_measured_is_refused():
    method = rs_fedpg(eta=0.1, local_steps=1, horizon=2, batch=1, lam=LAM)
    poles = Federation(cart_pole.environment(), cart_pole.start_ranges(2, 0.05, 0.1))
    with pytest.raises(ValueError, match="exact_objective solves finite MDPs"):
        train(pavg(eta=0.1, local_steps=1, horizon=2, policy=mlp(4)), poles, rounds=1, evaluation=exact_objective())
    with pytest.raises(ValueError, match="exact_objective needs a policy with a table"):
        first_row(pavg(eta=0.1, local_steps=1, horizon=2, policy=mlp(4)), exact_objective())
    with pytest.raises(ValueError, match="knows the optimum of the paper's J_b only"):
        first_row(method, exact_objective(LAM, bit_discount=0.9, gap=True))


@pytest.mark.parametrize("evaluation", [exact_return, exact_objective])
def test_near_gamma_one_single_precision_is_warned_of(evaluation):
    mdp = random_mdp.dense(3, 2, 0.0)(keys.of_seed(2), 0)
    method = pavg(eta=0.1, local_steps=1, horizon=2)
    close, far = (Federation(finite.environment(3, 2, gamma), [mdp]) for gamma in (0.9999, 0.999))
    evaluation()(method(far), far)  # a warning would be an error
    with pytest.warns(UserWarning, match="at gamma = 0.9999 single precision is too coarse.*JAX_ENABLE_X64=1"):
        evaluation()(method(close), close)
    with jax.enable_x64(True):
        evaluation()(method(close), close)


def test_lists_are_as_precise_as_jax():
    with jax.enable_x64(True):
        where = Federation(finite.environment(1, 2, 0.99999), [MDP([[[1.0], [1.0]]], [[0.1, 0.3]], [1.0])])
        assert where.env_params.reward.dtype == np.float64
        row = first_row(pavg(eta=0.1, local_steps=1, horizon=2), exact_objective(LAM, gap=True), where)
        np.testing.assert_allclose(row["return"], (0.2 + LAM * np.log(2.0)) / 1e-5, rtol=1e-10)
    assert finite.as_numbers("start", [0.1, 0.9]).dtype == np.float32
