"""Exact solvers against hand calculation, long power series, enumeration and finite differences.

Random MDPs come from numpy, which compiles nothing.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl import keys
from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.softmax import softmax_table

best = jax.jit(solvers.optimal)
values_of = jax.jit(jax.vmap(solvers.value, (None, 0, None)))


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def drawn(seed: int, states: int = 4, actions: int = 3) -> tuple[MDP, jax.Array]:
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(states, 0.4), (states, actions))
    mdp = MDP(kernel, rng.uniform(size=(states, actions)), rng.dirichlet(np.ones(states)))
    return jax.tree.map(jnp.asarray, mdp), jnp.asarray(rng.dirichlet(np.ones(actions), states))


def stacked(*mdps: MDP) -> MDP:
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *mdps)


def logits(seed: int, shape: tuple[int, ...]) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def shape_of(policy) -> tuple[int, ...]:
    return jax.eval_shape(policy.init, keys.of_seed(0)).shape


def two_states() -> MDP:
    """a0 stays, a1 swaps; state 0 pays 1 by a0, state 1 pays 2 by a1."""
    kernel = np.stack([np.eye(2), 1.0 - np.eye(2)], axis=1)
    return jax.tree.map(jnp.asarray, MDP(kernel, np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 0.0])))


def test_two_states_by_hand():
    mdp, gamma = two_states(), 0.5
    always_stay = jnp.array([[1.0, 0.0], [1.0, 0.0]])

    @jax.jit
    def everything(pi):
        of = (solvers.value, solvers.q_value, solvers.advantage, solvers.visitation)
        return [f(mdp, pi, gamma) for f in of]

    v, q, advantage, visitation = everything(always_stay)
    np.testing.assert_allclose(v, [2.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(q, [[2.0, 0.0], [0.0, 3.0]], atol=1e-14)
    np.testing.assert_allclose(advantage, [[0.0, -2.0], [0.0, 3.0]], atol=1e-14)
    np.testing.assert_allclose(visitation, [1.0, 0.0], atol=1e-14)
    # state 0: stay for 1 + 0.5 + ... = 2; state 1: swap for 2 + 0.5 * 2
    actions, v = best(mdp, gamma)
    np.testing.assert_array_equal(actions, [0, 1])
    np.testing.assert_allclose(v, [2.0, 3.0], atol=1e-14)


def test_value_visitation_and_advantage_against_power_series():
    @jax.jit
    def both(mdp, pi, gamma):
        chain, reward = solvers.induced(mdp, pi)

        def add(carry, _):
            series, term, occupied, here = carry
            return (series + term, gamma * chain @ term, occupied + here, gamma * here @ chain), None

        zero = jnp.zeros_like(reward)
        (series, _, occupied, _), _ = jax.lax.scan(add, (zero, reward, zero, mdp.start), None, length=600)
        exact = solvers.value(mdp, pi, gamma), solvers.visitation(mdp, pi, gamma), solvers.advantage(mdp, pi, gamma)
        return exact, (series, (1.0 - gamma) * occupied)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**31 - 1), st.floats(0.0, 0.94))
    def check(seed, gamma):
        mdp, pi = drawn(seed)
        (v, d, advantage), (series, occupied) = both(mdp, pi, gamma)
        np.testing.assert_allclose(v, series, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(d, occupied, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(np.sum(d), 1.0, atol=1e-12)
        paid = np.sum(np.asarray(d)[:, None] * pi * mdp.reward) / (1 - gamma)
        np.testing.assert_allclose(np.dot(mdp.start, v), paid, rtol=1e-10)
        np.testing.assert_allclose(np.sum(np.asarray(pi) * advantage, axis=-1), 0.0, atol=1e-11)

    check()


def test_stationary_is_the_limit_of_the_chain():
    mdp, pi = drawn(0)
    max_episode_steps = np.linalg.matrix_power(np.einsum("sa,sat->st", pi, mdp.kernel), 2000)[0]
    np.testing.assert_allclose(jax.jit(solvers.stationary)(mdp, pi), max_episode_steps, atol=1e-11)


def test_optimal_beats_every_deterministic_policy_in_every_state():
    eval_every = np.array(list(itertools.product(range(3), repeat=4)))
    tables = np.eye(3)[eval_every]
    for seed in range(8):
        mdp, _ = drawn(seed)
        actions, v = best(mdp, 0.95)
        values = np.asarray(values_of(mdp, jnp.asarray(tables), 0.95))
        np.testing.assert_allclose(v, values.max(0), rtol=1e-12)
        np.testing.assert_allclose(values[(eval_every == np.asarray(actions)).all(1)][0], v, rtol=1e-12)


def test_optimal_ends_in_single_precision_with_ties_and_long_horizons():
    mdp, _ = drawn(5)
    twice = MDP(np.repeat(mdp.kernel, 2, axis=1), np.repeat(mdp.reward, 2, axis=1), mdp.start)  # every action twice
    exact = best(mdp, 0.999)[1]
    with jax.enable_x64(False):
        _, v = best(jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float32), twice), 0.999)
        assert v.dtype == jnp.float32
    np.testing.assert_allclose(v, exact, rtol=1e-3)


def test_optimum_of_the_imaginary_mdp():
    env_params = stacked(*(drawn(seed)[0] for seed in range(3)))
    imaginary = finite.average(env_params, jnp.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(imaginary.kernel, np.tensordot([0.2, 0.3, 0.5], env_params.kernel, axes=1), rtol=1e-12)
    _, v = best(imaginary, 0.9)
    bellman = np.max(np.asarray(imaginary.reward) + 0.9 * np.asarray(imaginary.kernel) @ np.asarray(v), axis=-1)
    np.testing.assert_allclose(v, bellman, rtol=1e-12)


@pytest.mark.parametrize("actions", [2, 3, 5])
def test_probabilities_fold_spare_words_onto_the_last_action(actions):
    policy = bit_softmax()(finite.environment(3, actions, 0.9))
    theta = logits(actions, shape_of(policy))
    pi, table = jax.jit(lambda t: (solvers.probabilities(policy, t), policy.table(t)))(theta)
    assert pi.shape == (3, actions)
    word = np.exp(np.asarray(table).sum(-1))
    np.testing.assert_allclose(pi[:, :-1], word[:, : actions - 1], atol=1e-15)
    np.testing.assert_allclose(pi[:, -1], word[:, actions - 1 :].sum(-1), atol=1e-15)
    np.testing.assert_allclose(np.sum(pi, axis=-1), 1.0, atol=1e-14)


@pytest.mark.parametrize(
    ("build", "actions"),
    [
        (softmax_table(), 3),  # J_sm and J_r
        (bit_softmax(), 2),  # J_b, k = 1
        (bit_softmax(), 4),  # J_b, k = 2
        (bit_softmax(), 5),  # J_b, k = 3 with spare words
    ],
)
def test_gradient_against_central_differences(build, actions):
    gamma, h = 0.9, 1e-5
    mdp, _ = drawn(actions, 3, actions)
    policy = build(finite.environment(3, actions, gamma))
    theta = np.random.default_rng(7).normal(size=shape_of(policy))
    nudges = h * np.concatenate([np.eye(theta.size), -np.eye(theta.size)]).reshape(-1, *theta.shape)

    @jax.jit
    def both(lam):
        values = jax.vmap(lambda t: solvers.objective(policy, t, mdp, gamma, lam))(jnp.asarray(theta + nudges))
        return solvers.gradient(policy, jnp.asarray(theta), mdp, gamma, lam), values

    for lam in (0.0, 0.3):
        exact, values = both(lam)
        up, down = np.split(np.asarray(values), 2)
        assert np.max(np.abs(exact)) > 1e-2
        np.testing.assert_allclose(np.ravel(exact), (up - down) / (2 * h), atol=1e-6)


def test_policy_gradient_theorem():
    policy = softmax_table()(finite.environment(4, 3, 0.9))

    @jax.jit
    def compare(theta, mdp, lam):
        return solvers.gradient(policy, theta, mdp, 0.9, lam), solvers.policy_gradient(theta, mdp, 0.9, lam)

    for seed in range(10):
        automatic, theorem = compare(2.0 * logits(seed, (4, 3)), drawn(seed)[0], 0.3 * (seed % 2))
        np.testing.assert_allclose(theorem, automatic, rtol=1e-9, atol=1e-11)


def test_objectives_reduce_to_one_another():
    mdp, _ = drawn(2, 4, 2)
    environment = finite.environment(4, 2, 0.9)
    softmax, bits = softmax_table()(environment), bit_softmax()(environment)

    @jax.jit
    def everything(theta, lam):
        plain = jnp.dot(mdp.start, solvers.value(mdp, solvers.probabilities(softmax, theta), 0.9))
        by_bits = solvers.objective(bits, theta[:, None], mdp, 0.9, lam)
        return plain, solvers.objective(softmax, theta, mdp, 0.9, lam), by_bits

    plain, J_sm, _ = everything(logits(1, (4, 2)), 0.0)
    np.testing.assert_allclose(J_sm, plain, rtol=1e-13)
    plain, J_r, J_b = everything(logits(1, (4, 2)), 0.2)
    np.testing.assert_allclose(J_b, J_r, rtol=1e-13)  # k = 1
    assert J_r > plain
    plain, J_r, _ = everything(jnp.zeros((4, 2)), 0.2)  # uniform policy: entropy log 2 at every step
    np.testing.assert_allclose(J_r - plain, 0.2 * np.log(2.0) / 0.1, rtol=1e-12)


def test_bit_discount_of_paper_and_published_code():
    mdp, _ = drawn(2, 3, 4)
    policy = bit_softmax()(finite.environment(3, 4, 0.9))
    plain, paper, code = jax.jit(
        lambda theta: (
            solvers.objective(policy, theta, mdp, 0.9),
            solvers.objective(policy, theta, mdp, 0.9, 1.0),
            solvers.objective(policy, theta, mdp, 0.9, 1.0, 0.9),  # gamma^(1/(k-1))
        )
    )(jnp.zeros((3, 3, 2)))
    np.testing.assert_allclose(paper - plain, np.log(2.0) * (1 + 0.9**0.5) / 0.1, rtol=1e-12)
    np.testing.assert_allclose(code - plain, np.log(2.0) * (1 + 0.9) / 0.1, rtol=1e-12)


def test_averages_over_a_stack():
    single = [drawn(seed)[0] for seed in range(3)]
    policy = softmax_table()(finite.environment(4, 3, 0.9))
    theta, q = logits(1, (4, 3)), np.array([0.5, 0.25, 0.25])
    J = jax.jit(lambda mdp: solvers.objective(policy, theta, mdp, 0.9))
    each = np.array([J(mdp) for mdp in single])

    @jax.jit
    def averages(env_params):
        by_table = solvers.average_value(env_params, solvers.probabilities(policy, theta), 0.9)
        return by_table, solvers.average_objective(policy, theta, env_params, 0.9, weight=jnp.asarray(q))

    plain, weighted = averages(stacked(*single))
    np.testing.assert_allclose(plain, each.mean(), rtol=1e-13)
    np.testing.assert_allclose(weighted, q @ each, rtol=1e-13)
    assert abs(weighted - each.mean()) > 1e-6


def test_single_precision_stays_single():
    with jax.enable_x64(False):
        mdp, pi = drawn(0)
        policy = softmax_table()(finite.environment(4, 3, 0.9))
        for f in (
            lambda: solvers.gradient(policy, jnp.ones((4, 3)), mdp, 0.9, 0.1),
            lambda: solvers.policy_gradient(jnp.ones((4, 3)), mdp, 0.9, 0.1),
            lambda: solvers.visitation(mdp, pi, 0.9),
            lambda: solvers.stationary(mdp, pi),
        ):
            assert jax.eval_shape(f).dtype == jnp.float32


def test_a_policy_without_a_table_is_refused():
    policy = softmax_table()(finite.environment(4, 3, 0.9))._replace(table=None)
    with pytest.raises(ValueError, match=r"policy\.table"):
        solvers.probabilities(policy, jnp.zeros((4, 3)))
