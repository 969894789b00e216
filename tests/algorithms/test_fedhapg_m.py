"""FedHAPG-M as a whole, Algorithm 2 of Wang et al. 2024: its server, its engines, and where it meets FedAvg."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl import train, trees
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedhapg_m import fedhapg_m
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole
from fedrl.environments.tabular import solvers
from fedrl.evaluation import evaluation_exchange, exact_return
from fedrl.federations.federation import Federation
from fedrl.policies.mlp import categorical_mlp
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import everyone
from fedrl.types import LocalUpdate

SAMPLING = {"horizon": 10, "batch": 2}
FROM_ANYWHERE = {"policy": softmax_table(jax.random.normal), **SAMPLING}


def learnt(method, rounds: int = 1) -> np.ndarray:
    return np.asarray(train(method, federation(4), rounds=rounds, seed=3, engine=fused("map")).theta)


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_the_first_local_step_is_fedavg(beta):
    """theta_{-1} = theta_0 and u_0 = 0: no alpha, no Lambda, weight one. The step is beta times PAvg's, to the bit."""
    first = learnt(fedhapg_m(beta=beta, eta=0.1, local_steps=1, **FROM_ANYWHERE))
    assert first.tobytes() == learnt(pavg(eta=0.1 * beta, local_steps=1, **FROM_ANYWHERE)).tobytes()
    assert np.max(np.abs(first - learnt(pavg(eta=0.0, local_steps=1, **FROM_ANYWHERE)))) > 1e-2


@pytest.mark.parametrize(("local_steps", "rounds"), [(2, 1), (1, 2)])
def test_the_second_local_step_is_not(local_steps, rounds):
    """beta = 1 is no reduction: from the second step on, episodes come from theta(alpha)."""
    options = {"eta": 0.1, "local_steps": local_steps, **FROM_ANYWHERE}
    assert np.max(np.abs(learnt(fedhapg_m(beta=1.0, **options), rounds) - learnt(pavg(**options), rounds))) > 1e-4


def theta_norm(algorithm, where):
    """For policies without a table: measures the size of theta."""
    local = LocalUpdate(
        start=lambda theta, client, key: trees.squared_norm(theta),
        sample=lambda local, client, key: (),
        estimate=lambda local, trajectory, client, key: ((), local),
        apply=lambda local, direction, client: local,
        finish=lambda local, client: (local, (), jnp.zeros((), jnp.int32)),
        local_steps=0,
    )
    return evaluation_exchange(algorithm, local, everyone()(where, None).choose)


def end_state(method, where, evaluation, engine) -> list[np.ndarray]:
    """The server after four rounds, and every metric."""
    algorithm = method(where)
    play = engine(algorithm, where, evaluation(algorithm, where), 1)
    state, opening = play.init([5, 6])
    state, metrics = play.advance(state, 0, 4)
    return [np.asarray(leaf) for leaf in jax.tree.leaves((state.server, opening, metrics))]


SETTINGS = {
    "softmax table": (
        lambda: federation(3),
        exact_return(),
        {"eta": 0.05, "first_batch": 3, "server_step": 0.4},
    ),
    "cart-pole": (
        lambda: Federation(cart_pole.environment(), cart_pole.start_ranges(3, 0.02, 0.2)),
        theta_norm,
        {"eta": 0.005, "policy": categorical_mlp(8, 8)},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_engines_agree(name):
    where, evaluation, options = SETTINGS[name]
    method, where = fedhapg_m(beta=0.3, local_steps=3, **SAMPLING, **options), where()
    exact, plain, fast = (
        end_state(method, where, evaluation, e) for e in (fused("map"), one_at_a_time(), fused("vmap"))
    )
    for a, b, c in zip(exact, plain, fast, strict=True):
        assert np.all(np.isfinite(a))
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, c, atol=2e-4, rtol=2e-4)


def test_the_server_moves_by_lambda_u():
    """theta_{r+1} = theta_r + lambda u_{r+1} with lambda = server_step * eta * K, and theta_r is remembered."""
    where = federation(3)
    algorithm = fedhapg_m(beta=0.5, eta=0.1, local_steps=4, server_step=0.7, **SAMPLING)(where)
    engine = fused("map")(algorithm, where, exact_return()(algorithm, where), 1)
    before, _ = engine.init([0])
    after, _ = engine.advance(before, 0, 1)
    moved = after.server.theta - before.server.theta
    np.testing.assert_allclose(moved, 0.7 * 0.1 * 4 * after.server.kept.u, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(after.server.kept.theta_prev, before.server.theta)


def test_it_learns():
    """Sixty rounds on random MDPs earn most of what the uniform policy leaves: what each client's own optimum has more."""
    where = federation(4)
    method = fedhapg_m(beta=0.2, eta=0.05, local_steps=5, first_batch=10, horizon=20, batch=4)
    rows = train(method, where, rounds=60, seed=0, engine=fused("vmap")).rows
    best = jnp.mean(jax.vmap(lambda mdp: mdp.start @ solvers.optimal(mdp, 0.8)[1])(where.env_params))
    assert rows[-1]["return"] - rows[0]["return"] > 0.7 * (float(best) - rows[0]["return"])


@pytest.mark.parametrize("beta", [0.0, -0.1, 1.5])
def test_beta_outside_its_range(beta):
    with pytest.raises(ValueError, match="beta must lie in"):
        fedhapg_m(beta=beta, eta=0.1, local_steps=1, horizon=2)
