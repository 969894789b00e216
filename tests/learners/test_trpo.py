"""TRPO: Fisher products against explicit matrices, the natural step against a solver, the bound on many batches (30 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.actor_critics import CARS, CART, STEPS, TINY, UNFILTERED, Bench, advantages, return_after

from fedrl import keys
from fedrl.environments.tabular import finite
from fedrl.learners.improvement import Batch, surrogate
from fedrl.learners.trpo import fisher_product, line_search, natural_step, trpo
from fedrl.policies.mlp import gaussian_mlp, mlp
from fedrl.policies.softmax import softmax_table

DRAWN = {"obs": (STEPS, 4), "advantage": (STEPS,)}
OBS = jax.random.normal(jax.random.key(0), (5, 4))


def of_categorical(theta):
    """F: the mean over s of sum over a of pi(a|s) times the outer product of the gradient of log pi(a|s)."""
    policy = mlp(3)(CART)
    flat, shaped = ravel_pytree(theta)

    def log_pi(flat):
        return jnp.stack([policy.log_probs(shaped(flat), OBS, jnp.full((5,), a))[:, 0] for a in range(2)], axis=1)

    score = np.asarray(jax.jacobian(log_pi)(flat), np.float64)
    return np.einsum("sa,sai,saj->ij", np.exp(np.asarray(log_pi(flat), np.float64)), score, score) / 5


def of_gaussian(theta):
    """F: the mean over s of J^T J / sigma^2 for the layers, J being the mean action's Jacobian; 2 for each log sigma."""
    flat, shaped = ravel_pytree(theta)

    def mean(flat):
        (kernel, bias), (last, offset) = shaped(flat).layers
        return jnp.tanh(OBS[:, :2] @ kernel + bias[None, :]) @ last + offset[None, :]

    slope = np.asarray(jax.jacobian(mean)(flat), np.float64)
    fisher = np.einsum("sai,saj->ij", slope, slope) / 5 * np.exp(-2 * float(theta.log_std[0]))
    fisher[-1, -1] += 2.0
    return fisher


@pytest.mark.parametrize("kind", ["categorical", "Gaussian"])
def test_fisher_products(kind):
    categorical = kind == "categorical"
    policy = mlp(3)(CART) if categorical else gaussian_mlp(3, log_std=-0.4)(CARS.environment)
    theta = policy.init(jax.random.key(1))
    flat, shaped = ravel_pytree(theta)
    obs = OBS if categorical else OBS[:, :2]

    def mean_kl(new):
        return jnp.mean(policy.kl(theta, shaped(new), obs))

    products = jax.jit(jax.vmap(lambda v: fisher_product(mean_kl, flat, v)))(jnp.eye(flat.size))
    expected = of_categorical(theta) if categorical else of_gaussian(theta)
    np.testing.assert_allclose(products, expected, atol=1e-5)
    assert np.abs(expected).max() > 0.1


def quadratic(key: int, damping: float):
    """A linear gain, a KL with a random Fisher matrix around a random theta, and the step that solves them exactly."""
    draw = np.random.default_rng(key)
    root, slope, theta = draw.normal(size=(8, 8)), draw.normal(size=8), draw.normal(size=8)
    fisher = root @ root.T / 8 + 0.3 * np.eye(8)
    x = np.linalg.solve(fisher + damping * np.eye(8), slope)
    step = np.sqrt(2 * 0.01 / (x @ (fisher + damping * np.eye(8)) @ x)) * x
    fisher32, slope32, theta32 = (jnp.asarray(a, jnp.float32) for a in (fisher, slope, theta))
    return lambda t: slope32 @ t, lambda t: 0.5 * (t - theta32) @ fisher32 @ (t - theta32), theta32, step, slope


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_natural_step_against_a_solver(damping):
    for key in range(5):
        gain, mean_kl, theta, expected, slope = quadratic(key, damping)
        step = natural_step(gain, mean_kl, theta, delta=0.01, damping=damping, iterations=16)
        np.testing.assert_allclose(step, expected, rtol=1e-3, atol=1e-5)
        if damping == 0:
            np.testing.assert_allclose(mean_kl(theta + step), 0.01, rtol=1e-3)
        first = natural_step(gain, mean_kl, theta, delta=0.01, damping=damping, iterations=1)
        np.testing.assert_allclose(first / jnp.linalg.norm(first), slope / np.linalg.norm(slope), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("gain", "mean_kl", "backtracks", "expected", "tries"),
    [  # from 1.0 with a step of 0.8, halved each time
        (lambda x: x, lambda x: 0.0 * x, 5, 1.8, 0),
        (lambda x: x, lambda x: jnp.abs(x - 1.0), 5, 1.2, 2),  # 0.8 and 0.4 are too far
        (lambda x: x, lambda x: jnp.abs(x - 1.0), 2, 1.0, 2),  # so are both that are tried
        (lambda x: -((x - 1.15) ** 2), lambda x: 0.0 * x, 5, 1.2, 2),  # 1.8 and 1.4 are worse than 1.0
        (lambda x: -((x - 1.03) ** 2), lambda x: 0.0 * x, 5, 1.05, 4),
        (lambda x: -x, lambda x: 0.0 * x, 5, 1.0, 5),  # every step is worse
        (lambda x: 0.0 * x, lambda x: 0.0 * x, 5, 1.0, 5),  # none is better
        (lambda x: x, lambda x: jnp.nan * x, 5, 1.0, 5),
        (lambda x: jnp.where(x > 1.5, jnp.nan, x), lambda x: 0.0 * x, 5, 1.4, 1),
    ],
)
def test_line_search(gain, mean_kl, backtracks, expected, tries):
    found, backtracked = line_search(
        lambda x: gain(x[0]), lambda x: mean_kl(x[0]), jnp.ones(1), jnp.full(1, 0.8),
        delta=0.3, backtracks=backtracks, shrink=0.5,
    )  # fmt: skip
    np.testing.assert_allclose(found, [expected], rtol=1e-6)
    assert int(backtracked) == tries


def test_one_try_goes_too_far_where_ten_do_not():
    """A hundred policies on batches of their own: the bound holds and the surrogate improves. For the larger bound the
    quadratic model is poor: many a whole step breaks it or is worse than none, and with one try the policy then stays.
    """
    policy = mlp(8)(CART)

    def one(number, delta, backtracks):
        key = keys.of(jax.random.key(5), "policy", number)
        actor = policy.init(key)
        theta, shaped = ravel_pytree(actor)
        obs, advantage = (jax.random.normal(keys.of(key, word), shape) for word, shape in DRAWN.items())
        choice = jax.random.bernoulli(keys.of(key, "choice"), shape=(STEPS,)).astype(jnp.int32)
        batch = Batch(obs, choice, policy.log_probs(actor, obs, choice)[:, 0], advantage, advantage)
        functions = lambda t: surrogate(policy, shaped(t), batch), lambda t: jnp.mean(policy.kl(actor, shaped(t), obs))
        step = natural_step(*functions, theta, delta=delta, damping=0.01, iterations=10)
        new, _ = line_search(*functions, theta, step, delta=delta, backtracks=backtracks, shrink=0.5)
        gain, moved = functions
        return (jnp.any(new != theta), *(x for t in (new, theta + step) for x in (gain(t) - gain(theta), moved(t))))

    many = jax.jit(lambda *limits: jax.vmap(lambda number: one(number, *limits))(jnp.arange(100)))
    for delta in (0.001, 0.5):
        moved, gain, kl, full_gain, full_kl = map(np.asarray, many(delta, 10))
        assert moved.all()
        assert (gain > 0).all()
        assert (kl <= delta * 1.0001).all()
        assert np.median(kl) > 0.2 * delta
        too_far, worse = full_kl > delta * 1.0001, full_gain < 0
        once = np.asarray(many(delta, 1)[0])
        assert not once[too_far | worse].any()
        assert once[full_kl < delta * 0.9999].any()
    assert too_far.sum() > 10
    assert (worse & ~too_far).any()


def test_the_bound_holds():
    """For twelve Gaussian policies of the learner itself, on batches with random rewards."""
    delta, policy = 0.2, TINY["policy"](CARS.environment)
    bench = Bench(trpo(**TINY | UNFILTERED | {"critic_epochs": 0}, delta=delta, damping=0.01), CARS)
    for number in range(12):
        key = jax.random.key(number)
        bench.theta = bench.learner.init(key)
        trajectory = bench.act(bench.begin(), bench.client, key)
        trajectory = trajectory._replace(reward=jax.random.normal(key, trajectory.reward.shape))
        actor = bench.learn(bench.begin(), trajectory, key).theta.actor
        obs, choice = trajectory.obs.reshape(STEPS, 2), trajectory.choice.reshape(STEPS, 1)
        assert 0 < float(jnp.mean(policy.kl(bench.theta.actor, actor, obs))) <= delta * 1.0001
        old, new = (policy.log_probs(x, obs, choice)[:, 0] for x in (bench.theta.actor, actor))
        assert np.mean(np.exp(new - old) * advantages(trajectory, bench.theta.critic)) > 0.01


def test_learns_with_the_same_bits_on_both_engines():
    assert return_after(12, trpo) > 100


@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"damping": -1.0}, {"shrink": 1.0}])
def test_nonsense_is_refused(settings):
    with pytest.raises(ValueError, match="TRPO needs delta > 0, damping >= 0 and shrink in"):
        trpo(**settings)


def test_a_policy_without_kl_is_refused():
    with pytest.raises(ValueError, match="TRPO needs a policy with closed-form KL"):
        trpo(policy=softmax_table())(finite.environment(3, 2, 0.9))
