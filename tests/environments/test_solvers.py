"""Exact solvers against hand calculation, long power series, enumeration and finite differences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl import keys
from fedrl.environments import finite, random_mdp, solvers
from fedrl.environments.finite import MDP
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.softmax import softmax_table

seeds = st.integers(0, 2**31 - 1)
world = random_mdp.dense(4, 3, 0.5)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def drawn(seed: int, states: int = 4, actions: int = 3) -> tuple[MDP, jax.Array]:
    key = keys.of_seed(seed)
    mdp = random_mdp.sparse(states, actions)(key, 1)
    start = jax.random.dirichlet(keys.of(key, "start"), jnp.ones(states))
    pi = jax.random.dirichlet(keys.of(key, "pi"), jnp.ones(actions), (states,))
    return mdp._replace(start=start), pi


def two_states() -> MDP:
    """a0 stays, a1 swaps; state 0 pays 1 by a0, state 1 pays 2 by a1."""
    stay, swap = jnp.eye(2), 1.0 - jnp.eye(2)
    return MDP(jnp.stack([stay, swap], axis=1), jnp.array([[1.0, 0.0], [0.0, 2.0]]), jnp.array([1.0, 0.0]))


def test_two_states_by_hand():
    mdp, gamma = two_states(), 0.5
    always_stay = jnp.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(solvers.value(mdp, always_stay, gamma), [2.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(solvers.q_value(mdp, always_stay, gamma), [[2.0, 0.0], [0.0, 3.0]], atol=1e-14)
    np.testing.assert_allclose(solvers.advantage(mdp, always_stay, gamma), [[0.0, -2.0], [0.0, 3.0]], atol=1e-14)
    np.testing.assert_allclose(solvers.visitation(mdp, always_stay, gamma), [1.0, 0.0], atol=1e-14)
    # a1 in both states alternates 0, 2, 0, 2, ...: V(0) = 0.5 V(1), V(1) = 2 + 0.5 V(0); staying in 0 is better
    actions, v = solvers.optimal(mdp, gamma)
    np.testing.assert_array_equal(actions, [0, 1])
    np.testing.assert_allclose(v, [2.0, 3.0], atol=1e-14)


def test_value_and_visitation_against_power_series():
    @jax.jit
    def both(mdp, pi, gamma):
        chain, reward = solvers.induced(mdp, pi)

        def add(carry, _):
            series, term, occupied, here = carry
            return (series + term, gamma * chain @ term, occupied + here, gamma * here @ chain), None

        zero = jnp.zeros_like(reward)
        (series, _, occupied, _), _ = jax.lax.scan(add, (zero, reward, zero, mdp.start), None, length=600)
        exact = solvers.value(mdp, pi, gamma), solvers.visitation(mdp, pi, gamma)
        return exact, (series, (1.0 - gamma) * occupied)

    @settings(max_examples=25, deadline=None)
    @given(seeds, st.floats(0.0, 0.94))
    def check(seed, gamma):
        mdp, pi = drawn(seed)
        (v, d), (series, occupied) = both(mdp, pi, gamma)
        np.testing.assert_allclose(v, series, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(d, occupied, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(d.sum(), 1.0, atol=1e-12)
        np.testing.assert_allclose(
            jnp.dot(mdp.start, v), jnp.sum(d[:, None] * pi * mdp.reward) / (1 - gamma), rtol=1e-10
        )

    check()


def test_advantage_has_mean_zero_under_the_policy():
    mdp, pi = drawn(3)
    np.testing.assert_allclose(jnp.sum(pi * solvers.advantage(mdp, pi, 0.9), axis=-1), 0.0, atol=1e-12)
    assert float(jnp.max(jnp.abs(solvers.advantage(mdp, pi, 0.9)))) > 1e-3


def test_stationary_is_the_limit_of_the_chain():
    mdp = world(keys.of_seed(0), 2)
    pi = drawn(0)[1]
    chain, _ = solvers.induced(mdp, pi)
    limit = jnp.linalg.matrix_power(chain, 500)[0]
    np.testing.assert_allclose(solvers.stationary(mdp, pi), limit, atol=1e-12)


def test_optimal_beats_every_deterministic_policy_in_every_state():
    best = jax.jit(solvers.optimal)
    tables = jnp.stack([solvers.deterministic(jnp.array(c), 3) for c in itertools.product(range(3), repeat=4)])
    values = jax.jit(jax.vmap(solvers.value, (None, 0, None)))
    for seed in range(8):
        mdp, _ = drawn(seed)
        actions, v = best(mdp, 0.95)
        np.testing.assert_allclose(v, jnp.max(values(mdp, tables, 0.95), axis=0), rtol=1e-12)
        np.testing.assert_allclose(solvers.value(mdp, solvers.deterministic(actions, 3), 0.95), v, rtol=1e-14)


def test_optimal_ends_in_single_precision_with_ties_and_long_horizons():
    with jax.enable_x64(False):
        mdp = world(keys.of_seed(5), 1)
        tied = MDP(*(jnp.concatenate([x, x], axis=1) for x in mdp[:2]), mdp.start)  # every action twice
        assert tied.kernel.dtype == jnp.float32
        _, v = jax.jit(solvers.optimal)(tied, 0.999)
        np.testing.assert_allclose(v, solvers.optimal(mdp, 0.999)[1], rtol=1e-3)


def test_optimum_of_the_imaginary_mdp():
    worlds = jax.vmap(world, (None, 0))(keys.of_seed(1), jnp.arange(3))
    weight = jnp.array([0.2, 0.3, 0.5])
    imaginary = finite.average(worlds, weight)
    _, v = solvers.optimal(imaginary, 0.9)
    np.testing.assert_allclose(v, jnp.max(solvers.lookahead(imaginary, v, 0.9), axis=-1), rtol=1e-12)


@pytest.mark.parametrize("actions", [2, 3, 4, 5])
def test_probabilities_fold_spare_words_onto_the_last_action(actions):
    policy = bit_softmax()(finite.environment(3, actions, 0.9))
    theta = jax.random.normal(keys.of_seed(actions), jax.eval_shape(policy.init, keys.of_seed(0)).shape)
    pi = jax.jit(lambda t: solvers.probabilities(policy, t))(theta)
    assert pi.shape == (3, actions)
    word = np.exp(np.asarray(policy.table(theta)).sum(-1))
    np.testing.assert_allclose(pi[:, :-1], word[:, : actions - 1], atol=1e-15)
    np.testing.assert_allclose(pi[:, -1], word[:, actions - 1 :].sum(-1), atol=1e-15)
    np.testing.assert_allclose(pi.sum(-1), 1.0, atol=1e-14)


@pytest.mark.parametrize(
    ("build", "actions", "lam"),
    [
        (softmax_table(), 3, 0.0),  # J_sm
        (softmax_table(), 3, 0.3),  # J_r
        (bit_softmax(), 2, 0.3),  # J_b, k = 1
        (bit_softmax(), 4, 0.3),  # J_b, k = 2
        (bit_softmax(), 5, 0.3),  # J_b, k = 3 with spare words
    ],
)
def test_gradient_against_central_differences(build, actions, lam):
    gamma = 0.9
    mdp, _ = drawn(actions, 3, actions)
    policy = build(finite.environment(3, actions, gamma))
    theta = jax.random.normal(keys.of_seed(7), jax.eval_shape(policy.init, keys.of_seed(0)).shape)
    f = jax.jit(lambda flat: solvers.objective(policy, flat.reshape(theta.shape), mdp, gamma, lam))
    h = 1e-5
    nudges = h * jnp.eye(theta.size)
    base = theta.reshape(-1)[None]
    difference = (jax.vmap(f)(base + nudges) - jax.vmap(f)(base - nudges)) / (2 * h)
    exact = solvers.gradient(policy, theta, mdp, gamma, lam)
    assert float(jnp.max(jnp.abs(exact))) > 1e-2
    np.testing.assert_allclose(exact.reshape(-1), difference, atol=1e-6)


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_policy_gradient_theorem(lam):
    policy = softmax_table()(finite.environment(4, 3, 0.9))
    compare = jax.jit(
        lambda theta, mdp: (
            solvers.gradient(policy, theta, mdp, 0.9, lam),
            solvers.policy_gradient(theta, mdp, 0.9, lam),
        )
    )
    for seed in range(5):
        mdp, _ = drawn(seed)
        theta = 2.0 * jax.random.normal(keys.of_seed(seed), (4, 3))
        automatic, theorem = compare(theta, mdp)
        np.testing.assert_allclose(theorem, automatic, rtol=1e-9, atol=1e-11)


def test_objectives_reduce_to_one_another():
    mdp, _ = drawn(2, 4, 2)
    environment = finite.environment(4, 2, 0.9)
    softmax, bits = softmax_table()(environment), bit_softmax()(environment)
    theta = jax.random.normal(keys.of_seed(1), (4, 2))
    plain = jnp.dot(mdp.start, solvers.value(mdp, solvers.probabilities(softmax, theta), 0.9))
    np.testing.assert_allclose(solvers.objective(softmax, theta, mdp, 0.9), plain, rtol=1e-13)
    regularised = solvers.objective(softmax, theta, mdp, 0.9, 0.2)  # k = 1: J_b is J_r
    np.testing.assert_allclose(solvers.objective(bits, theta[:, None], mdp, 0.9, 0.2), regularised, rtol=1e-13)
    assert float(regularised) > float(plain)
    # uniform policy: entropy log 2 at every step
    uniform = solvers.objective(softmax, 0 * theta, mdp, 0.9, 0.2) - solvers.objective(softmax, 0 * theta, mdp, 0.9)
    np.testing.assert_allclose(uniform, 0.2 * np.log(2.0) / 0.1, rtol=1e-12)


def test_bit_discount_of_paper_and_published_code():
    mdp, _ = drawn(2, 3, 4)
    policy = bit_softmax()(finite.environment(3, 4, 0.9))
    theta = jnp.zeros((3, 3, 2))

    def entropy(discount):
        full = solvers.objective(policy, theta, mdp, 0.9, 1.0, discount)
        return float(full - solvers.objective(policy, theta, mdp, 0.9))

    np.testing.assert_allclose(entropy(None), np.log(2.0) * (1 + 0.9**0.5) / 0.1, rtol=1e-12)
    np.testing.assert_allclose(entropy(0.9), np.log(2.0) * (1 + 0.9) / 0.1, rtol=1e-12)  # gamma^(1/(k-1))


def test_averages_over_a_stack():
    worlds = jax.vmap(world, (None, 0))(keys.of_seed(1), jnp.arange(3))
    policy = softmax_table()(finite.environment(4, 3, 0.9))
    theta = jax.random.normal(keys.of_seed(1), (4, 3))
    each = [solvers.objective(policy, theta, jax.tree.map(lambda x, i=i: x[i], worlds), 0.9) for i in range(3)]
    q = jnp.array([0.5, 0.25, 0.25])
    pi = solvers.probabilities(policy, theta)
    np.testing.assert_allclose(solvers.average_value(worlds, pi, 0.9), np.mean(each), rtol=1e-13)
    weighted = solvers.average_objective(policy, theta, worlds, 0.9, weight=q)
    np.testing.assert_allclose(weighted, np.dot(q, each), rtol=1e-13)
    assert abs(float(weighted) - np.mean(each)) > 1e-6


def test_single_precision_stays_single():
    with jax.enable_x64(False):
        mdp = world(keys.of_seed(0), 0)
        policy = softmax_table()(finite.environment(4, 3, 0.9))
        theta = jnp.ones((4, 3))
        assert solvers.gradient(policy, theta, mdp, 0.9, 0.1).dtype == jnp.float32
        assert solvers.policy_gradient(theta, mdp, 0.9, 0.1).dtype == jnp.float32


def test_a_policy_without_a_table_is_refused():
    policy = softmax_table()(finite.environment(4, 3, 0.9))._replace(table=None)
    with pytest.raises(ValueError, match=r"policy\.table"):
        solvers.probabilities(policy, jnp.zeros((4, 3)))
