"""`examples/fednpg.py`: its direction is the natural gradient, it learns, and engines agree to the bit."""

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.engine_runs import end_state
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.tabular import finite, random_mdp, solvers
from fedrl.evaluation import exact_return
from fedrl.keys import of_seed
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.policies.softmax import softmax_table
from fedrl.types import Client

SCRIPT = Path(__file__).parents[2] / "examples" / "fednpg.py"
GAMMA, HORIZON, BATCH, DRAWS = (
    0.5,
    22,
    1000,
    400,
)  # gamma^horizon = 2e-7; the bias of a ratio of means is of order 1 / BATCH


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(SCRIPT))


def exact_natural_gradient(policy, theta, mdp) -> np.ndarray:
    """pinv(F) grad J in float64, F = E over d(s) pi(a|s) of grad log pi grad log pi^T."""
    pi = solvers.probabilities(policy, theta)
    weight = np.asarray(solvers.visitation(mdp, pi, GAMMA)[:, None] * pi, np.float64).reshape(-1)
    scores = np.asarray(jax.jacobian(policy.table)(theta), np.float64).reshape(weight.size, theta.size)
    fisher = scores.T @ (weight[:, None] * scores)
    gradient = np.asarray(solvers.gradient(policy, theta, mdp, GAMMA), np.float64).reshape(-1)
    return (np.linalg.pinv(fisher, rcond=1e-6, hermitian=True) @ gradient).reshape(theta.shape)


def test_the_direction_is_the_natural_gradient(example):
    mdp = random_mdp.dense(3, 2, 0.5)(of_seed(3), jnp.int32(1))
    mdp = mdp._replace(reward=mdp.reward.at[:, 0].add(2.0))
    environment = finite.environment(3, 2, GAMMA)
    policy = softmax_table()(environment)
    theta = 0.7 * jax.random.normal(of_seed(1), (3, 2))
    direction = example["natural_gradient"](horizon=HORIZON, batch=BATCH)(environment, policy)
    client = Client(jnp.int32(0), mdp, (), ())

    def estimate(key):
        return direction.learn(theta, (), direction.sample(theta, (), client, key), client, key)[0]

    draws = np.asarray(jax.lax.map(jax.jit(estimate), jax.random.split(of_seed(7), DRAWS)), np.float64)
    draws = draws - draws.mean(
        axis=2, keepdims=True
    )  # adding a constant to a row of theta changes nothing; F^+ has mean 0
    exact = exact_natural_gradient(policy, theta, mdp)
    error = draws.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    assert np.all(np.abs(draws.mean(axis=0) - exact) <= 4 * error + 1e-5), (draws.mean(axis=0), exact, error)
    assert np.max(np.abs(exact) / error) > 25, "the check is too blunt: it would pass on half the gradient"


def test_it_learns(example):
    method = fedavg(gradient_learner(example["natural_gradient"](horizon=20, batch=8), eta=0.05, local_steps=2))
    run = fedrl.train(method, federation(4), rounds=20, seed=3)
    first, last = (float(np.mean(run.rows[i]["return"])) for i in (0, -1))
    assert last > 1.1 * first, (first, last)


def test_engines_agree_to_the_bit(example):
    method = fedavg(gradient_learner(example["natural_gradient"](horizon=8, batch=4), eta=0.05, local_steps=2))
    one, other = (
        end_state(method, engine, federation(3), exact_return(), rounds=3) for engine in (fused(), one_at_a_time())
    )
    assert one == other


def test_it_prints_the_return(example, capsys):
    example["main"](rounds=2)
    assert "after 2 rounds" in capsys.readouterr().out
