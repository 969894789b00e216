"""Every gradient estimator against the exact gradient: four standard errors, coordinate by coordinate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import trees
from fedrl.environments.tabular import finite, random_mdp, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.keys import of_seed
from fedrl.learners.q_learning import q_learning
from fedrl.learners.reinforce import reinforce, reward_to_go
from fedrl.learners.svrpg import Anchor, importance_weight, svrpg
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.softmax import softmax_table
from fedrl.rollouts.traced import rollout
from fedrl.types import Client

GAMMA, HORIZON, EPISODES = 0.5, 22, 100_000  # gamma^horizon = 2e-7: truncation is far below the noise


def small_mdp(actions: int = 3) -> MDP:
    """A random MDP in which the first action is the good one, so that gradients stand out of the noise."""
    drawn = random_mdp.dense(4, actions, 0.5)(of_seed(3), jnp.int32(1))
    return drawn._replace(reward=drawn.reward.at[:, 0].add(2.0))


def client(actions: int = 3) -> Client:
    return Client(jnp.int32(0), small_mdp(actions), (), ())


def setting(policy, actions: int = 3):
    env = finite.environment(4, actions, GAMMA)
    acting = policy()(env)
    theta = 0.7 * jax.random.normal(of_seed(1), jax.tree.leaves(acting.init(of_seed(0)))[0].shape)
    return env, acting, theta


def samples(direction, theta, message, actions: int = 3) -> np.ndarray:
    """Independent single-episode estimates [EPISODES, ...]."""
    who = client(actions)
    one = jax.jit(lambda k: direction.learn(theta, message, direction.sample(theta, message, who, k), who, k)[0])
    return np.asarray(jax.lax.map(one, jax.random.split(of_seed(7), EPISODES), batch_size=4000))


def once(direction, theta, message, key):
    who = client()
    return direction.learn(theta, message, direction.sample(theta, message, who, key), who, key)


def assert_unbiased(estimates: np.ndarray, exact: np.ndarray) -> None:
    mean, error = estimates.mean(0), estimates.std(0, ddof=1) / np.sqrt(len(estimates))
    assert np.all(np.abs(mean - exact) <= 4 * error + 1e-6), np.max(np.abs(mean - exact) / (error + 1e-9))
    assert np.max(np.abs(exact) / (error + 1e-9)) > 25, "the check is too blunt: it would pass on half the gradient"


@pytest.mark.parametrize(
    ("policy", "lam", "actions"),
    [
        pytest.param(softmax_table, 0.0, 3, id="S-FedPG, Eq. 6"),
        pytest.param(softmax_table, 0.3, 3, id="RS-FedPG, Eq. 9"),
        pytest.param(bit_softmax, 0.3, 4, id="b-RS-FedPG, Eq. 10"),
        pytest.param(bit_softmax, 0.3, 3, id="b-RS-FedPG with a padded action"),
        pytest.param(bit_softmax, 0.3, 2, id="b-RS-FedPG with one bit"),
    ],
)
def test_reinforce_is_unbiased(policy, lam, actions):
    env, acting, theta = setting(policy, actions)
    estimates = samples(reinforce(horizon=HORIZON, lam=lam)(env, acting), theta, (), actions)
    assert_unbiased(estimates, np.asarray(solvers.gradient(acting, theta, small_mdp(actions), GAMMA, lam)))


def test_the_print_of_eq_10_is_biased():
    """Discounting the reward by gammabar^(k-1) once more, as Eq. (10) is printed, misses the gradient of J_b."""
    env, acting, theta = setting(bit_softmax, 4)
    exact = np.asarray(solvers.gradient(acting, theta, small_mdp(4), GAMMA, 0.0))
    estimates = samples(reinforce(horizon=HORIZON)(env, acting), theta, (), 4) * GAMMA ** (1 / 2)
    with pytest.raises(AssertionError):
        assert_unbiased(estimates, exact)


@pytest.mark.parametrize("beta", [0.2, 0.7])
def test_svrpg_is_unbiased(beta):
    """E u = beta grad J(theta) + (1 - beta)(u + grad J(theta) - grad J(theta_prev)), Eq. (4)."""
    env, acting, theta = setting(softmax_table)
    theta_prev = theta + 0.2 * jax.random.normal(of_seed(2), theta.shape)
    u = jax.random.normal(of_seed(4), theta.shape)

    def exact_at(theta):
        return np.asarray(solvers.gradient(acting, theta, small_mdp(), GAMMA))

    exact = beta * exact_at(theta) + (1 - beta) * (np.asarray(u) + exact_at(theta) - exact_at(theta_prev))
    direction = svrpg(beta=beta, horizon=HORIZON)(env, acting)
    assert_unbiased(samples(direction, theta, Anchor(theta, theta_prev, u)), exact)


def test_svrpg_batches_average_episodes():
    env, acting, theta = setting(softmax_table)
    anchor = Anchor(theta, theta + 0.1, jnp.ones_like(theta))
    big, steps, _ = once(svrpg(beta=0.5, horizon=HORIZON, batch=20_000)(env, acting), theta, anchor, of_seed(5))
    exact = np.asarray(solvers.gradient(acting, theta, small_mdp(), GAMMA))  # theta + 0.1 is the same policy
    np.testing.assert_allclose(big, 0.5 * exact + 0.5, atol=0.05)
    assert int(steps) == HORIZON * 20_000


def test_importance_weights_average_to_one():
    env, acting, theta = setting(softmax_table)
    other = theta + 0.3 * jax.random.normal(of_seed(2), theta.shape)
    trajectory = rollout(env, acting, theta, small_mdp(), of_seed(6), horizon=10, batch=EPISODES)
    weight = np.asarray(importance_weight(acting, other, theta, trajectory))
    assert abs(weight.mean() - 1) <= 4 * weight.std(ddof=1) / np.sqrt(EPISODES)
    assert weight.std() > 0.1
    np.testing.assert_allclose(importance_weight(acting, theta, theta, trajectory), 1.0)


def test_reward_to_go_by_hand():
    """Two steps, one episode: [r0 + g r1 + lam(s0 + g s1), g r1 + lam g s1] with surprises s = -log pi."""
    env, acting, theta = setting(softmax_table)
    trajectory = rollout(env, acting, theta, small_mdp(), of_seed(6), horizon=2, batch=1)
    r, s = (
        np.asarray(trajectory.reward[0]),
        -np.asarray(acting.log_probs(theta, trajectory.obs, trajectory.choice))[0, :, 0],
    )
    got = reward_to_go(env, acting, theta, trajectory, lam=0.5)[0, :, 0]
    late = GAMMA * (r[1] + 0.5 * s[1])
    np.testing.assert_allclose(got, [r[0] + 0.5 * s[0] + late, late], rtol=1e-6)


def test_rollouts_follow_the_kernel_and_the_policy():
    env, acting, theta = setting(softmax_table)
    trajectory = rollout(env, acting, theta, small_mdp(), of_seed(8), horizon=2, batch=200_000)
    pi = np.asarray(solvers.probabilities(acting, theta))
    at0 = np.asarray(trajectory.obs[:, 0]) == 0
    frequency = np.bincount(np.asarray(trajectory.choice[at0, 0]), minlength=3) / at0.sum()
    np.testing.assert_allclose(frequency, pi[0], atol=4 * np.sqrt(0.25 / at0.sum()))
    moved = at0 & (np.asarray(trajectory.choice[:, 0]) == 1)
    next_state = np.bincount(np.asarray(trajectory.obs[moved, 1]), minlength=4) / moved.sum()
    np.testing.assert_allclose(next_state, np.asarray(small_mdp().kernel)[0, 1], atol=4 * np.sqrt(0.25 / moved.sum()))


def test_q_learning_residual_is_the_bellman_residual():
    """Averaged over many samples, every pair's residual is r + gamma P max Q - Q."""
    env, acting, _ = setting(softmax_table)
    q = jax.random.normal(of_seed(1), (4, 3))
    residual, steps = once(q_learning(samples=400_000)(env, acting), q, (), of_seed(2))
    exact = solvers.lookahead(small_mdp(), jnp.max(q, axis=-1), GAMMA) - q
    np.testing.assert_allclose(residual, exact, atol=0.02)
    assert int(steps) == 400_000


def test_q_learning_leaves_pairs_it_did_not_draw():
    env, acting, _ = setting(softmax_table)
    q = jnp.ones((4, 3))
    keep, _ = once(q_learning(samples=1)(env, acting), q, (), of_seed(2))
    decay, _ = once(q_learning(samples=1, unsampled="decay")(env, acting), q, (), of_seed(2))
    assert np.sum(np.asarray(keep) != 0) == 1
    np.testing.assert_allclose(np.sort(np.asarray(decay).ravel())[:-1], -1.0)
    assert float(trees.squared_norm(keep)) > 0
