"""Theorem 3.1 and Lemma E.9 of Labbi et al. 2025, with the numbers of the proofs."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.tabular import finite, solvers
from fedrl.policies.softmax import softmax_table
from fedrl.theory import common_policies
from fedrl.theory import counter_examples as examples

GAMMA = examples.GAMMA
gap_b2 = cache(examples.gap_b2)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("instance", [examples.lemma_b1, examples.lemma_b2, examples.lemma_b3, examples.lemma_e9])
def test_instances_differ_in_kernels_only(instance):
    env_params = finite.check(instance())
    assert (env_params.reward[0] == env_params.reward[1]).all()
    assert (env_params.start[0] == env_params.start[1]).all()
    assert (env_params.kernel[0] != env_params.kernel[1]).any()


def test_lemma_b1_local_history_is_worse_than_agent_aware():
    gap = examples.gap_b1()
    assert gap.smaller < gap.larger
    # s0 pays 10 for ever; in s1 one -1 buys agent 2 nine more, and agent 1 nothing
    np.testing.assert_allclose(gap.smaller, 0.25 * (10 + 10 - 1 + (-1 + 9)), atol=1e-10)
    np.testing.assert_allclose(gap.larger, 0.25 * (10 + 10 + 0 + (-1 + 9)), atol=1e-10)


def test_lemma_b2_stationary_is_worse_than_time_varying():
    gap = gap_b2()
    assert gap.smaller < gap.larger
    np.testing.assert_allclose(2 * gap.smaller, 2 * GAMMA**2 / (1 - GAMMA) + 2 * GAMMA, atol=1e-6)
    np.testing.assert_allclose(2 * gap.larger, 2 * GAMMA**2 / (1 - GAMMA) + GAMMA + 2 * GAMMA**2, atol=1e-10)


def test_lemma_b2_closed_form_of_every_stationary_policy():
    env_params = examples.lemma_b2()
    p = jnp.linspace(0.0, 1.0, 101)

    def solved(p):
        pi = jnp.full((4, 2), 0.5).at[3].set(jnp.stack([p, 1.0 - p]))
        return solvers.average_value(env_params, pi, GAMMA)

    closed = examples.stationary_b2(p)
    np.testing.assert_allclose(jax.jit(jax.vmap(solved))(p), closed, rtol=1e-12)
    assert (jnp.diff(jnp.diff(closed)) > 0).all()  # convex, so the ends decide
    np.testing.assert_allclose(jnp.max(closed), gap_b2().smaller, atol=1e-6)


def test_lemma_b2_memory_of_the_path_does_better_still():
    best = common_policies.best_local_history(examples.lemma_b2(), GAMMA)
    np.testing.assert_allclose(best, 0.5 * (2 * GAMMA**2 / (1 - GAMMA) + GAMMA / (1 - GAMMA)), atol=1e-10)


def test_lemma_b3_deterministic_is_worse_than_a_coin():
    gap = examples.gap_b3()
    assert gap.smaller < gap.larger
    np.testing.assert_allclose(gap.smaller, 5 * GAMMA / (1 - GAMMA), atol=1e-10)
    np.testing.assert_allclose(gap.larger, 10 * GAMMA / (1 - GAMMA) - 5 * GAMMA / (1 - GAMMA / 2), atol=1e-10)


def test_lemma_e9_closed_form_is_the_regularised_objective():
    env_params = examples.lemma_e9()
    policy = softmax_table()(finite.environment(4, 2, examples.GAMMA_E9))
    logit = jnp.array([-8.0, -3.0, 0.0, 1.5, 6.0])

    def solved(logit):
        theta = jnp.zeros((4, 2)).at[0, 1].set(logit)
        return solvers.average_objective(policy, theta, env_params, examples.GAMMA_E9, examples.LAMBDA_E9)

    np.testing.assert_allclose(
        jax.jit(jax.vmap(solved))(logit), jax.jit(jax.vmap(examples.regularised_e9))(logit), rtol=1e-9
    )


def test_lemma_e9_has_a_strict_local_minimum_between_two_hills():
    gap = examples.gap_e9()
    assert gap.larger - gap.smaller > 0.1
    logit = jnp.linspace(-12.0, 12.0, 2001)
    sign = np.sign(np.diff(np.asarray(jax.jit(jax.vmap(examples.regularised_e9))(logit))))
    turns = [(a, b) for a, b in itertools.pairwise(sign) if a != b]
    assert turns == [(1, -1), (-1, 1), (1, -1)]


def test_schedule_of_one_table_is_stationary():
    mdp = jax.tree.map(lambda x: x[1], examples.lemma_b2())
    pi = jnp.full((4, 2), 0.5)
    stationary = jnp.dot(mdp.start, solvers.value(mdp, pi, GAMMA))
    np.testing.assert_allclose(examples.schedule_value(mdp, [pi], GAMMA), stationary, rtol=1e-13)
    np.testing.assert_allclose(examples.schedule_value(mdp, [pi] * 4, GAMMA), stationary, rtol=1e-13)
