"""Eq. (5) of Wang et al. 2024 against finite differences, an enumeration of all episodes, and sampling."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import trees
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.environments.tabular import finite, random_mdp
from fedrl.environments.tabular.finite import MDP
from fedrl.keys import of_seed
from fedrl.learners.hapg import hapg, on_segment, reweighted
from fedrl.learners.reinforce import reinforce
from fedrl.learners.svrpg import Anchor
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.mlp import categorical_mlp, gaussian_mlp
from fedrl.policies.softmax import softmax_table
from fedrl.types import Client, Trajectory

GAMMA, HORIZON, EPISODES = 0.7, 5, 100_000
KEY = of_seed(11)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def small_mdp(states: int = 4, actions: int = 3) -> MDP:
    """A random MDP in which the first action is the good one, so that gradients stand out of the noise."""
    drawn = random_mdp.dense(states, actions, 0.5)(of_seed(3), jnp.int32(1))
    return drawn._replace(reward=drawn.reward.at[:, 0].add(2.0))


def client(env_params) -> Client:
    return Client(jnp.int32(0), env_params, (), ())


def near(theta, seed: int, size: float):
    """`theta` in the widest floats there are, each entry moved by a normal number times `size`."""
    leaves, shape = jax.tree.flatten(theta)
    noise = jax.random.split(of_seed(seed), len(leaves))
    moved = [jnp.asarray(x, float) + size * jax.random.normal(k, x.shape) for x, k in zip(leaves, noise, strict=True)]
    return jax.tree.unflatten(shape, moved)


def two_policies(policy, apart: float = 0.5):
    theta = near(policy.init(of_seed(0)), 1, 0.7)
    return theta, near(theta, 2, apart)


def anchor_at(theta, theta_prev) -> Anchor:
    return Anchor(theta, theta_prev, trees.zeros_like(theta))


def slope(f, theta, v, h: float = 1e-5):
    """Central difference of f at `theta` along `v`."""
    ahead, behind = (f(trees.add(theta, trees.scale(step, v))) for step in (h, -h))
    return trees.scale(1 / (2 * h), trees.subtract(ahead, behind))


def assert_near(got, exact, relative: float) -> None:
    """Within `relative` of the largest entry, which is not zero."""
    got, exact = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)]) for tree in (got, exact))
    assert np.max(np.abs(exact)) > 1e-3
    assert np.max(np.abs(got - exact)) <= relative * np.max(np.abs(exact))


WORLDS = {
    "softmax table": lambda: (finite.environment(4, 3, GAMMA), small_mdp(), softmax_table()),
    "bit-level softmax, padded": lambda: (finite.environment(4, 3, GAMMA), small_mdp(), bit_softmax()),
    "network, finite observations": lambda: (finite.environment(4, 3, GAMMA), small_mdp(), categorical_mlp(8, 8)),
    "network, cart-pole": lambda: (cart_pole.environment(0.9), cart_pole.params(start=0.2), categorical_mlp(8, 8)),
    "Gaussian network": lambda: (mountain_car.environment(0.9), mountain_car.params(), gaussian_mlp(6, 5)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_hessian_vector_product_of_an_episode(name, x64):
    """Lambda - <grad log p, v> g is the change of g(tau | .) along v: central differences, 1e-5."""
    environment, place, policy = WORLDS[name]()
    acting, horizon = policy(environment), 25 if "cart-pole" in name else 8
    theta, theta_prev = jax.jit(lambda: two_policies(acting))()
    anchor, who = anchor_at(theta, theta_prev), client(place)
    direction = hapg(beta=0.0, horizon=horizon)(environment, acting)
    trajectory = jax.jit(direction.sample)(theta, anchor, who, KEY)

    def log_pi(theta):
        return trajectory.alive.astype(float) * jnp.sum(
            acting.log_probs(theta, trajectory.obs, trajectory.choice), axis=-1
        )

    @jax.jit
    def both(theta, theta_prev):
        got, *_ = direction.learn(theta, anchor, trajectory, who, KEY)
        earned = environment.gamma ** jnp.arange(float(horizon)) * trajectory.reward[0]
        to_go = jnp.stack([jnp.sum(earned[t:]) for t in range(horizon)])[None, :]
        g = jax.grad(lambda theta: jnp.sum(to_go * log_pi(theta)))
        score = jax.grad(lambda theta: jnp.sum(log_pi(theta)))
        middle, v = on_segment(theta, theta_prev, KEY), trees.subtract(theta, theta_prev)
        along = sum(jnp.sum(a * b) for a, b in zip(*map(jax.tree.leaves, (score(middle), v)), strict=True))
        return trees.subtract(got, trees.scale(along, g(middle))), slope(g, middle, v)

    assert_near(*both(theta, theta_prev), 1e-5)
    assert ("cart-pole" in name) == (not trajectory.alive.all()), "one of the episodes should end early"


def exact_gradient(acting, mdp: MDP, horizon: int):
    """theta -> grad J_T, the return of `horizon` steps, by dynamic programming."""

    def objective(theta):
        pi, value = jnp.exp(acting.table(theta)[..., 0]), jnp.zeros_like(mdp.start)
        for _ in range(horizon):
            value = jnp.sum(pi * (mdp.reward + GAMMA * mdp.kernel @ value), axis=-1)
        return mdp.start @ value

    return jax.jit(jax.grad(objective))


def every_episode(acting, theta, mdp: MDP, horizon: int) -> tuple[Trajectory, jax.Array]:
    """All trajectories of `horizon` steps, each a batch of one, and their probabilities under `theta`."""
    states, actions = mdp.reward.shape
    steps = list(itertools.product(range(states), range(actions)))
    pairs = jnp.asarray(list(itertools.product(steps, repeat=horizon)), jnp.int32)
    s, a = pairs[..., 0], pairs[..., 1]
    moves = jnp.prod(mdp.kernel[s[:, :-1], a[:, :-1], s[:, 1:]], axis=1)
    p = mdp.start[s[:, 0]] * moves * jnp.prod(jnp.exp(acting.log_probs(theta, s, a))[..., 0], axis=1)
    never = jnp.zeros(s.shape, bool)
    return jax.tree.map(lambda x: x[:, None], Trajectory(s, a, mdp.reward[s, a], ~never, never, never, s)), p


@pytest.mark.parametrize("seed", range(3))
def test_expected_lambda_is_the_hessian_times_v(seed, x64):
    """Two states, two actions, three steps, all 64 episodes: central differences of the exact gradient, 1e-5."""
    mdp, environment = small_mdp(2, 2), finite.environment(2, 2, GAMMA)
    acting, key = softmax_table()(environment), of_seed(seed)
    theta, theta_prev = jax.jit(lambda: two_policies(acting))()
    middle = on_segment(theta, theta_prev, key)
    trajectory, p = every_episode(acting, middle, mdp, 3)
    np.testing.assert_allclose(p.sum(), 1.0)

    def mean(beta: float):
        learn = hapg(beta=beta, horizon=3)(environment, acting).learn
        each = jax.vmap(lambda tau: learn(theta, anchor_at(theta, theta_prev), tau, client(mdp), key)[0])
        return jax.jit(lambda trajectory: trees.weighted_sum(p, each(trajectory)))(trajectory)

    gradient = exact_gradient(acting, mdp, 3)
    assert_near(mean(0.0), slope(gradient, middle, theta - theta_prev), 1e-5)
    assert_near(mean(1.0), gradient(theta), 1e-12)
    assert np.max(np.abs(gradient(theta) - gradient(middle))) > 1e-3


def samples(direction, theta, anchor: Anchor, who: Client) -> np.ndarray:
    """Independent single-episode estimates [EPISODES, ...]."""
    one = jax.jit(lambda k: direction.learn(theta, anchor, direction.sample(theta, anchor, who, k), who, k)[0])
    return np.asarray(jax.lax.map(one, jax.random.split(of_seed(7), EPISODES), batch_size=4000))


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0], ids=["Lambda alone", "both", "weighted gradient alone"])
def test_hapg_is_unbiased(beta):
    """E u = beta grad J(theta) + (1 - beta)(u + grad J(theta) - grad J(theta_prev)): four standard errors."""
    mdp, environment = small_mdp(), finite.environment(4, 3, GAMMA)
    acting = softmax_table()(environment)
    theta, theta_prev = two_policies(acting, apart=1.0)
    u = jax.random.normal(of_seed(4), theta.shape)
    gradient = exact_gradient(acting, mdp, HORIZON)
    exact = beta * gradient(theta) + (1 - beta) * (u + gradient(theta) - gradient(theta_prev))
    direction = hapg(beta=beta, horizon=HORIZON)(environment, acting)
    estimates = samples(direction, theta, Anchor(theta, theta_prev, u), client(mdp))
    known = np.asarray((1 - beta) * u)
    error = estimates.std(0, ddof=1) / np.sqrt(EPISODES)
    off = np.abs(estimates.mean(0) - exact) / error
    assert np.all(off <= 4), off.max()
    assert np.max(np.abs(exact - known) / error) > 25, "the check is too blunt: it would pass on half the gradient"
    if beta == 0.0:  # what alpha is for: the Hessian at either end does not give the difference
        for end in (theta, theta_prev):
            _, product = jax.jvp(gradient, (end,), (theta - theta_prev,))
            assert np.max(np.abs(u + product - exact) / error) > 8


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_a_batch_is_the_mean_of_its_episodes(beta):
    environment, who = finite.environment(4, 3, GAMMA), client(small_mdp())
    acting = softmax_table()(environment)
    theta, theta_prev = jax.jit(lambda: two_policies(acting))()
    anchor = Anchor(theta, theta_prev, jnp.ones_like(theta))
    many, one = (hapg(beta=beta, horizon=HORIZON, batch=b)(environment, acting) for b in (4, 1))
    trajectory = jax.jit(many.sample)(theta, anchor, who, KEY)
    together, steps, _ = jax.jit(many.learn)(theta, anchor, trajectory, who, KEY)
    alone = jax.jit(one.learn)
    each = [alone(theta, anchor, jax.tree.map(lambda x, b=b: x[b : b + 1], trajectory), who, KEY)[0] for b in range(4)]
    np.testing.assert_allclose(together, np.mean(each, axis=0), rtol=1e-5, atol=1e-6)
    assert int(steps) == 4 * HORIZON


def test_the_segment():
    """alpha is uniform, one for all leaves, and of no effect where the ends are equal."""
    ends = {"a": jnp.zeros((2,)), "b": jnp.full((3,), 1.0)}, {"a": jnp.ones((2,)), "b": jnp.full((3,), 3.0)}
    alpha = jax.vmap(lambda k: on_segment(*ends, k)["a"][0])(jax.random.split(of_seed(2), 20_000))
    np.testing.assert_allclose(np.quantile(alpha, [0.0, 0.25, 0.5, 0.75, 1.0]), [0, 0.25, 0.5, 0.75, 1], atol=0.015)
    point = on_segment(*ends, KEY)
    np.testing.assert_allclose(point["b"], 1 + 2 * point["a"][0], rtol=1e-6)
    theta = jax.random.normal(KEY, (1000,))
    np.testing.assert_array_equal(on_segment(theta, theta, KEY), theta)


def test_where_it_was_sampled_the_weight_is_one():
    environment, who = finite.environment(4, 3, GAMMA), client(small_mdp())
    acting = softmax_table()(environment)
    theta, _ = two_policies(acting)
    plain = reinforce(horizon=HORIZON, batch=3)(environment, acting)
    trajectory = jax.jit(plain.sample)(theta, (), who, KEY)
    exact, *_ = jax.jit(plain.learn)(theta, (), trajectory, who, KEY)
    got = jax.jit(lambda theta, trajectory: reweighted(environment, acting, theta, trajectory)(theta))(
        theta, trajectory
    )
    np.testing.assert_allclose(got, exact, rtol=1e-6)


def flops(direction_of, width: int) -> tuple[float, int]:
    """Floating-point operations of one `learn` with a network of two layers, and its number of parameters."""
    environment, who = cart_pole.environment(), client(cart_pole.params())
    acting = categorical_mlp(width, width)(environment)
    direction = direction_of(environment, acting)
    theta = jax.eval_shape(acting.init, KEY)
    anchor = Anchor(theta, theta, theta)
    trajectory = jax.eval_shape(direction.sample, theta, anchor, who, KEY)
    cost = jax.jit(direction.learn).lower(theta, anchor, trajectory, who, KEY).compile().cost_analysis()
    return cost["flops"], sum(x.size for x in jax.tree.leaves(theta))


def test_cost_is_linear_in_the_parameters():
    """Four times the parameters, four times the operations (a Hessian: sixteen); a few times REINFORCE's."""
    (little, few), (much, many) = (flops(hapg(beta=0.5, horizon=20), width) for width in (64, 128))
    assert many / few > 3.7
    assert much / little < 1.1 * many / few
    assert much / flops(reinforce(horizon=20), 128)[0] < 6
