"""The constants of Labbi et al. 2025 against exact quantities of 300 random instances; every trajectory is enumerated."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.tabular import finite, random_mdp, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.keys import of_seed
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.softmax import softmax_table
from fedrl.theory import heterogeneity
from fedrl.theory.fedpg_constants import bit_constants, softmax_constants

INSTANCES, CLIENTS, HORIZON, STATES = 300, 2, 3, 2


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def instances(actions: int, seed: int = 0) -> tuple[MDP, np.ndarray, np.ndarray, np.ndarray]:
    """Stacks of MDPs [n, clients], theta, gamma and lam: small and large, with near-deterministic policies among them."""
    rng = np.random.default_rng(seed)
    n = INSTANCES
    kernel = rng.dirichlet(np.full(STATES, 0.3), (n, CLIENTS, STATES, actions))
    reward = np.repeat(rng.integers(0, 2, (n, 1, STATES, actions)).astype(float), CLIENTS, axis=1)
    start = np.repeat(rng.dirichlet(np.ones(STATES), (n, 1)), CLIENTS, axis=1)
    theta = rng.normal(size=(n, STATES, actions)) * rng.choice([0.1, 1.0, 4.0], (n, 1, 1))
    gamma, lam = rng.uniform(0.05, 0.95, n), rng.choice([0.0, 0.1, 1.0, 5.0], n)
    return MDP(*map(jnp.asarray, (kernel, reward, start))), jnp.asarray(theta), jnp.asarray(gamma), jnp.asarray(lam)


def objective(policy, theta, mdp, gamma, lam, horizon=None):
    return solvers.objective(policy, theta, mdp, gamma, lam, None, horizon)


def bound(gamma, lam, actions, name, **options):
    rows = [
        getattr(softmax_constants(float(g), lam=float(x), actions=actions, horizon=HORIZON, **options), name)
        for g, x in zip(gamma, lam, strict=True)
    ]
    return np.array(rows)


@functools.cache
def measured(actions: int) -> dict[str, np.ndarray]:
    """Exact counterparts of the constants, of client 0 of every instance."""
    mdps, theta, gamma, lam = instances(actions)
    policy = softmax_table()(finite.environment(STATES, actions, 0.5))
    words = np.array(list(itertools.product(range(STATES), range(actions), repeat=HORIZON))).reshape(-1, HORIZON, 2)
    s, a = jnp.asarray(words[..., 0]), jnp.asarray(words[..., 1])

    def one(mdp, theta, gamma, lam, key):
        flat, size = theta.reshape(-1), theta.size

        def f(x, horizon=None):
            return objective(policy, x.reshape(theta.shape), mdp, gamma, lam, horizon)

        def third(u):
            return jax.jvp(lambda x: jax.jvp(jax.grad(f), (x,), (u,))[1], (flat,), (u,))[1]

        ways = jax.random.normal(key, (10, size))
        ways = jnp.concatenate([ways / jnp.linalg.norm(ways, axis=1, keepdims=True), jnp.eye(size)])
        log_pi = jax.nn.log_softmax(theta)
        moves = jnp.prod(mdp.kernel[s[:, :-1], a[:, :-1], s[:, 1:]], axis=1)
        chance = mdp.start[s[:, 0]] * moves * jnp.exp(jnp.sum(log_pi[s, a], axis=1))
        credit = (gamma ** jnp.arange(float(HORIZON)))[None] * (mdp.reward[s, a] - lam * log_pi[s, a])
        to_go = jnp.cumsum(credit[:, ::-1], axis=1)[:, ::-1]
        score = jax.vmap(jax.grad(lambda x, s, a: jax.nn.log_softmax(x)[s, a]), (None, 0, 0))
        each = score(theta, s.reshape(-1), a.reshape(-1)).reshape(*s.shape, size)
        estimate = jnp.sum(to_go[..., None] * each, axis=1)
        mean = chance @ estimate
        squares = jnp.sum((estimate - mean[None]) ** 2, axis=1)
        hessians = [jax.hessian(f)(flat), jax.hessian(lambda x: f(x, HORIZON))(flat)]
        spectral = [jnp.max(jnp.abs(jnp.linalg.eigvalsh(hessian))) for hessian in hessians]
        return {
            "L1": jnp.linalg.norm(jax.grad(f)(flat)),
            "L2": jnp.maximum(*spectral),
            "L3": jnp.max(jnp.linalg.norm(jax.vmap(third)(ways), axis=1)),
            "beta": jnp.linalg.norm(mean - jax.grad(f)(flat)),
            "sigma2": chance @ squares,
            "sigma4": chance @ squares**2,
            "chance": jnp.sum(chance),
            "mean": jnp.max(jnp.abs(mean - jax.grad(lambda x: f(x, HORIZON))(flat))),
        }

    first = jax.tree.map(lambda x: x[:, 0], mdps)
    found = jax.jit(jax.vmap(one))(first, theta, gamma, lam, jax.random.split(jax.random.key(1), INSTANCES))
    return {name: np.asarray(values) for name, values in found.items()}


@pytest.mark.parametrize("actions", [2, 3])
@pytest.mark.parametrize("name", ["L1", "L2", "L3", "beta", "sigma2", "sigma4"])
def test_constants_bound_what_is_measured(name, actions):
    _, _, gamma, lam = instances(actions)
    share = measured(actions)[name] / bound(gamma, lam, actions, name)
    assert share.max() <= 1.0
    assert share.max() > 1e-4  # not so loose that a wrong power of 1 - gamma would go unnoticed


@pytest.mark.parametrize("actions", [2, 3])
def test_the_estimator_is_unbiased_for_the_truncated_objective(actions):
    np.testing.assert_allclose(measured(actions)["chance"], 1.0, rtol=1e-12)
    assert measured(actions)["mean"].max() < 1e-10


@pytest.mark.parametrize("actions", [2, 3])
def test_zeta_bounds_the_difference_of_gradients(actions):
    mdps, theta, gamma, lam = instances(actions)
    policy = softmax_table()(finite.environment(STATES, actions, 0.5))

    @jax.jit
    @jax.vmap
    def both(mdps, theta, gamma, lam):
        apart = heterogeneity.gradient_heterogeneity(policy, theta, mdps, gamma, lam)
        return apart, heterogeneity.epsilon_p(mdps)

    zeta, epsilon_p = both(mdps, theta, gamma, lam)
    rows = zip(gamma, lam, epsilon_p, strict=True)
    bounds = [
        softmax_constants(float(g), lam=float(x), actions=actions, horizon=1, epsilon_p=float(e)).zeta
        for g, x, e in rows
    ]
    assert np.max(zeta / np.array(bounds)) <= 1.0


def test_batches_average_noise():
    one, many = (softmax_constants(0.9, horizon=5, batch=B) for B in (1, 10))
    assert many.sigma2 == pytest.approx(one.sigma2 / 10)
    assert many.sigma4 == pytest.approx(one.sigma4 / 100)
    assert many[:5] == one[:5]


def test_without_regularisation_they_are_those_of_s_fedpg():
    """Lemmas D.2 to D.8 by hand at gamma = 1/2."""
    found = softmax_constants(0.5, horizon=4, batch=2, epsilon_p=0.1, actions=7)
    by_hand = (4.0, 64.0, 7680.0, 38**0.5 * 0.8, np.log(2 / 16 / 0.5 * 6), 96.0, 71680.0)
    np.testing.assert_allclose(found, by_hand)
    assert found.beta == pytest.approx(1.5)


def test_bit_constants_bound_the_bit_level_objective():
    """App. F.2: two bits, in the original MDP."""
    mdp = random_mdp.dense(3, 4, 0.5)(of_seed(0), 0)
    mdp = MDP(*(jnp.asarray(np.asarray(x, np.float64)) for x in mdp))
    policy = bit_softmax()(finite.environment(3, 4, 0.8))
    limits = bit_constants(0.8, 2, horizon=6, lam=0.4)

    def f(x, horizon=None):
        return objective(policy, x.reshape(3, 3, 2), mdp, 0.8, 0.4, horizon)

    @jax.jit
    @jax.vmap
    def found(x):
        slope, truncated = jax.grad(f)(x), jax.grad(lambda x: f(x, 6))(x)
        curved = jnp.max(jnp.abs(jnp.linalg.eigvalsh(jax.hessian(f)(x))))
        return jnp.linalg.norm(slope), curved, jnp.linalg.norm(slope - truncated)

    slope, curved, bias = found(2.0 * jax.random.normal(jax.random.key(0), (100, 18)))
    assert slope.max() <= limits.L1
    assert curved.max() <= limits.L2
    assert bias.max() <= limits.beta


def test_equation_58_is_false():
    """Uniform is not where the mean of log(pi)^4 is largest."""
    rare = np.exp(-4.0)
    pi = np.array([rare, 1 - rare])
    assert pi @ np.log(pi) ** 4 > 20 * np.log(2) ** 4


def test_what_has_no_constants_is_refused():
    with pytest.raises(ValueError, match="the constants need 0 < gamma < 1"):
        softmax_constants(1.0, horizon=5)
