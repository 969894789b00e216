"""TAC: Tsallis entropies against sums and integrals, its gradient by hand, Shannon's actor-critic at q = 1 (30 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.actor_critics import (
    CARS,
    ONE_STEP,
    PASSES,
    TINY,
    UNFILTERED,
    Bench,
    goes_along_the_gradient,
    return_after,
    same,
)

from fedrl.environments.protocol import Box
from fedrl.environments.tabular import finite
from fedrl.learners.optimizers import constant
from fedrl.learners.ppo import ppo
from fedrl.learners.surrogates import Trust
from fedrl.learners.tac import tac
from fedrl.policies.mlp import categorical_mlp, gaussian_mlp
from fedrl.policies.softmax import softmax_table

INDICES = [0.3, 0.9, 1.0, 1.001, 1.2, 1.5, 2.0, 3.0, 5.0]
CATEGORICAL = categorical_mlp(6)(finite.environment(7, 4, 0.9))
TWO_ACTIONS = gaussian_mlp(3)(CARS.environment._replace(actions=Box((2,), (-1.0,) * 2, (1.0,) * 2)))


def log_q(x: np.ndarray, q: float) -> np.ndarray:
    return np.log(x) if q == 1 else (x ** (q - 1) - 1) / (q - 1)


@pytest.mark.parametrize("q", INDICES)
def test_categorical_entropy_is_the_sum(q):
    theta = jax.tree.map(lambda x: 2.0 * x, CATEGORICAL.init(jax.random.key(0)))
    states = jnp.arange(7, dtype=jnp.int32)
    log_pi = [CATEGORICAL.log_probs(theta, states, jnp.full((7,), a))[:, 0] for a in range(4)]
    pi = np.exp(np.stack(log_pi, axis=1).astype(np.float64))
    expected = -np.sum(pi * log_q(pi, q), axis=1)
    np.testing.assert_allclose(CATEGORICAL.tsallis(theta, states, q), expected, rtol=2e-5)


@pytest.mark.parametrize("q", INDICES)
def test_gaussian_entropy_is_the_integral(q):
    theta = TWO_ACTIONS.init(jax.random.key(0))._replace(log_std=jnp.array([-0.7, 0.3]))
    along = [np.linspace(-30 * s, 30 * s, 1201) for s in np.exp([-0.7, 0.3])]
    one = [
        np.exp(-0.5 * (x / s) ** 2) / (s * np.sqrt(2 * np.pi)) for x, s in zip(along, np.exp([-0.7, 0.3]), strict=True)
    ]
    pi = np.maximum(np.outer(*one), 1e-300)
    expected = -np.sum(pi * log_q(pi, q)) * np.prod([x[1] - x[0] for x in along])
    found = TWO_ACTIONS.tsallis(theta, jnp.zeros((3, 2)), q)
    np.testing.assert_allclose(found, [expected] * 3, rtol=1e-4)


@pytest.mark.parametrize(("policy", "obs"), [(CATEGORICAL, jnp.int32([1, 5])), (TWO_ACTIONS, jnp.ones((2, 2)))])
def test_one_is_shannon_and_no_jump_beside_it(policy, obs):
    theta = policy.init(jax.random.key(0))

    def entropy(q):
        return jax.value_and_grad(lambda theta: jnp.sum(policy.tsallis(theta, obs, q)))(theta)

    shannon = jax.jit(jax.value_and_grad(lambda theta: jnp.sum(policy.entropy(theta, obs))))(theta)
    assert same(jax.jit(lambda: entropy(1.0))(), shannon)
    beside = jax.jit(lambda: {far: (entropy(1 - far), entropy(1 + far)) for far in (1e-2, 1e-4, 1e-9)})()
    for far, pair in beside.items():
        for found in pair:
            for near, exact in zip(*map(jax.tree.leaves, (found, shannon)), strict=True):
                np.testing.assert_allclose(near, exact, rtol=1e-5, atol=10 * far + 1e-6)


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0, 1.5, 2.0])
def test_an_action_never_taken_does_no_harm(q):
    """Its probability rounds to zero; entropy and gradient stay finite."""
    theta = CATEGORICAL.init(jax.random.key(0))
    theta = (*theta[:-1], theta[-1]._replace(bias=jnp.array([0.0, 1.0, -2000.0, 2.0])))
    found = jax.value_and_grad(lambda t: jnp.sum(CATEGORICAL.tsallis(t, jnp.int32([1, 5]), q)))(theta)
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(found))
    assert float(found[0]) > 0


def test_one_step_by_hand():
    """Along the gradient of mean(A log pi) + alpha S_q, S_q = (1 - sum pi^q) / (q - 1); the rate is the round's."""
    q, alpha = 1.7, 0.3
    goes_along_the_gradient(
        Bench(tac(**TINY | ONE_STEP | UNFILTERED, q=q, alpha=constant(alpha))),
        lambda log_pi: alpha * jnp.mean(1.0 - jnp.sum(jnp.exp(q * log_pi), axis=1)) / (q - 1),
    )


def test_index_one_is_shannons_actor_critic():
    """To the bit, over several minibatches: PPO without a bound on the ratio, with the same bonus."""
    free = Trust(lambda ratio, advantage, kl, beta: ratio * advantage, lambda beta, kl, largest: beta)
    common = TINY | PASSES | {"learning_rate": constant(0.01)}
    shannon = Bench(ppo(**common, trust=free, entropy=constant(0.3)), CARS)
    bench = Bench(tac(**common, q=1.0, alpha=constant(0.3)), CARS)
    (_, expected), (_, found) = shannon.iterate(shannon.begin()), bench.iterate(bench.begin())
    assert same(found.theta, expected.theta)
    assert not same(found.theta.actor, bench.theta.actor)


def test_learns_with_the_same_bits_on_both_engines():
    assert return_after(12, tac, learning_rate=constant(0.01)) > 100


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="q must be a finite number larger than 0, got 0"):
        tac(q=0)
    with pytest.raises(ValueError, match="TAC needs a policy with closed-form Tsallis entropies"):
        tac(policy=softmax_table())(finite.environment(3, 2, 0.9))
