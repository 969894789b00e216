import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils import seeding

from fedrl import keys
from fedrl.environments.control import cart_pole
from fedrl.environments.protocol import Discrete

PRECISION = pytest.mark.parametrize(("wide", "tolerance"), [(True, 1e-12), (False, 1e-6)])
SPREAD = np.array([2.6, 4.0, 0.25, 4.0])  # of random states: about a quarter of the steps end the episode
CHANGES = (
    {},
    {"gravity": 3.7},
    {"cart_mass": 2.5},
    {"pole_mass": 0.4},
    {"half_length": 1.2},
    {"force": 4.0},
    {"gravity": 12.0, "cart_mass": 0.6, "pole_mass": 0.3, "half_length": 0.3, "force": 15.0},
)
NAMES = {"cart_mass": "masscart", "pole_mass": "masspole", "half_length": "length", "force": "force_mag"}


def reference(**changes):
    """Gymnasium's environment with the attributes of another world, derived ones included."""
    env = gymnasium.make("CartPole-v1").unwrapped
    for name, value in changes.items():
        setattr(env, NAMES.get(name, name), value)
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length
    return env


def replay(env, physics, actions):
    """Gymnasium's state, reward and termination after one step from each of `physics`."""
    seen = []
    for start, action in zip(physics, actions, strict=True):
        env.state, env.steps_beyond_terminated = start.astype(np.float64), None
        _, reward, terminated, _, _ = env.step(action)
        seen.append((env.state, reward, terminated))
    return [np.array(x) for x in zip(*seen, strict=True)]


def one_step(env_params, physics, steps, actions, max_episode_steps=500):
    """Our step from each of `physics`, all at once."""
    env = cart_pole.environment(max_episode_steps=max_episode_steps)

    @jax.jit
    def run(env_params, physics, steps, actions):
        place = env.prepare(env_params)
        return jax.vmap(lambda p, t, a: env.step(place, cart_pole.State(p, t), a, p))(physics, steps, actions)

    return jax.tree.map(
        np.asarray, run(env_params, jnp.asarray(physics, float), jnp.asarray(steps, jnp.int32), actions)
    )


@PRECISION
@pytest.mark.parametrize("changes", CHANGES)
def test_random_transitions_are_gymnasiums(changes, wide, tolerance):
    rng = np.random.default_rng(0)
    physics = (rng.uniform(-1.0, 1.0, (1000, 4)) * SPREAD).astype(np.float64 if wide else np.float32)
    actions = rng.integers(0, 2, 1000)
    state, reward, terminated = replay(reference(**changes), physics, actions)
    with jax.enable_x64(wide):
        ours = one_step(cart_pole.params(**changes), physics, np.zeros(1000), jnp.asarray(actions))
    assert ours.state.physics.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(ours.state.physics, state, rtol=0.0, atol=tolerance)
    np.testing.assert_array_equal(ours.reward, reward)
    np.testing.assert_array_equal(ours.terminated, terminated)
    assert 0.1 < terminated.mean() < 0.5
    assert not ours.truncated.any()


@pytest.mark.parametrize(
    ("index", "bound"), [(0, cart_pole.MAX_POSITION), (2, cart_pole.MAX_ANGLE), (0, -2.4), (2, -np.pi / 15)]
)
def test_an_episode_ends_beyond_the_bound_not_on_it(index, bound):
    physics = np.zeros((3, 4))
    physics[:, index] = bound * np.array([1.0 - 1e-12, 1.0, 1.0 + 1e-12])
    actions = np.ones(3, int)
    _, _, terminated = replay(reference(), physics, actions)
    with jax.enable_x64(True):
        ours = one_step(cart_pole.params(), physics, np.zeros(3), jnp.asarray(actions))
    np.testing.assert_array_equal(terminated, [False, False, True])
    np.testing.assert_array_equal(ours.terminated, terminated)


@pytest.mark.parametrize("half_width", [0.05, 0.2])
def test_the_same_uniform_numbers_give_gymnasiums_start(half_width):
    env, options = gymnasium.make("CartPole-v1"), {"low": -half_width, "high": half_width}
    with jax.enable_x64(True):
        ours, env_params = cart_pole.environment(), cart_pole.params(start=half_width)
        for seed in range(20):
            uniform = seeding.np_random(seed)[0].random(4)
            env.reset(seed=seed, options=options)
            start = ours.reset(ours.prepare(env_params), jnp.asarray(uniform))
            np.testing.assert_allclose(start.physics, env.unwrapped.state, rtol=0.0, atol=1e-15)
            assert start.steps == 0


def test_starts_fill_their_range():
    env, env_params = cart_pole.environment(), cart_pole.params(start=0.2)
    noise = env.noise(keys.of_seed(0), (50, 100))
    assert noise.shape == (50, 100, 4)
    starts = jax.vmap(lambda n: env.observe(env_params, env.reset(env_params, n)))(noise.reshape(-1, 4))
    np.testing.assert_allclose(starts.min(0), -0.2, atol=1e-3)
    np.testing.assert_allclose(starts.max(0), 0.2, atol=1e-3)
    np.testing.assert_allclose(starts.std(0), 0.2 / np.sqrt(3.0), rtol=0.05)


def gymnasium_episode(max_episode_steps, seed, act):
    """One whole episode under Gymnasium's own time limit: states [T + 1, 4], actions, terminated, truncated."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=max_episode_steps)
    env.reset(seed=seed)
    states, actions, ends = [env.unwrapped.state], [], []
    while not ends or not any(ends[-1]):
        actions.append(act(states[-1]))
        _, _, terminated, truncated, _ = env.step(actions[-1])
        states.append(env.unwrapped.state)
        ends.append((terminated, truncated))
    return np.array(states), np.array(actions), *np.array(ends).T


@pytest.mark.parametrize("max_episode_steps", [25, 500])
def test_whole_episodes_end_as_under_gymnasiums_time_limit(max_episode_steps):
    rng = np.random.default_rng(1)
    policies = [lambda s: int(s[2] + 0.3 * s[3] + 0.02 * s[0] + 0.05 * s[1] > 0.0), lambda s: int(rng.integers(2))]
    kinds = set()
    for seed in range(12):
        states, actions, terminated, truncated = gymnasium_episode(max_episode_steps, seed, policies[seed % 2])
        with jax.enable_x64(True):
            env_params = cart_pole.params(horizon=max_episode_steps)
            ours = one_step(env_params, states[:-1], np.arange(len(actions)), jnp.asarray(actions))
        np.testing.assert_allclose(ours.state.physics, states[1:], rtol=0.0, atol=1e-12)
        np.testing.assert_array_equal(ours.terminated, terminated)
        np.testing.assert_array_equal(ours.truncated, truncated)
        kinds.add((bool(terminated[-1]), bool(truncated[-1])))
    assert {(True, False), (False, True)} <= kinds


def test_a_step_may_be_both_done_and_cut_as_in_gymnasium():
    length = len(gymnasium_episode(500, 0, lambda s: 1)[1])
    states, actions, terminated, truncated = gymnasium_episode(length, 0, lambda s: 1)
    ours = one_step(cart_pole.params(horizon=length), states[:-1], np.arange(length), jnp.asarray(actions))
    assert (terminated[-1], truncated[-1], ours.terminated[-1], ours.truncated[-1]) == (True, True, True, True)
    assert (ours.terminated[-2], ours.truncated[-2]) == (False, False)


def play(env, env_params, key, steps, act):
    """[clients, steps] of a free run, by scan under vmap under jit; `act` maps an observation to an action."""

    def client(env_params, noise):
        place = env.prepare(env_params)

        def step(state, noise):
            after = env.step(place, state, act(env.observe(place, state)), noise)
            return after.state, after

        return jax.lax.scan(step, env.reset(place, noise[0]), noise[1:])[1]

    noise = env.noise(key, (env_params.horizon.size, steps + 1))
    return jax.jit(jax.vmap(client))(env_params, noise)


def balance(obs):
    return (obs[2] + 0.3 * obs[3] + 0.02 * obs[0] + 0.05 * obs[1] > 0.0).astype(jnp.int32)


def test_every_client_is_cut_exactly_at_its_own_horizon():
    horizons = np.array([1, 2, 7, 30, 59, 60, 200], np.int32)
    after = play(
        cart_pole.environment(max_episode_steps=60),
        cart_pole.params(horizon=jnp.asarray(horizons)),
        keys.of_seed(0),
        80,
        balance,
    )
    assert not after.terminated.any()
    assert after.reward.shape == (7, 80)
    np.testing.assert_array_equal(after.truncated, np.arange(1, 81)[None] >= np.minimum(horizons, 60)[:, None])
    np.testing.assert_array_equal(after.state.steps[:, -1], 80)


@PRECISION
def test_a_stack_of_worlds_runs_as_gymnasium_does_on_each(wide, tolerance):
    lengths = (0.3, 0.5, 1.0)
    with jax.enable_x64(wide):
        env_params = cart_pole.params(half_length=jnp.asarray(lengths, float))
        after = play(cart_pole.environment(), env_params, keys.of_seed(3), 30, lambda obs: jnp.int32(1))
    physics = np.asarray(after.state.physics, np.float64)
    for client, length in enumerate(lengths):
        env = reference(half_length=length)
        env.state, end = physics[client, 0], int(after.terminated[client].argmax())
        for t in range(1, end + 1):
            _, _, terminated, _, _ = env.step(1)
            np.testing.assert_allclose(physics[client, t], env.state, rtol=0.0, atol=10 * tolerance)
            assert terminated == (t == end)
        assert end > 5


def test_worlds_are_gymnasiums_by_default_and_stack_by_broadcasting():
    env = gymnasium.make("CartPole-v1").unwrapped
    expected = (env.gravity, env.masscart, env.masspole, env.length, env.force_mag, 0.05, 500)
    np.testing.assert_allclose(np.array(cart_pole.params()), expected, rtol=1e-7)
    assert cart_pole.params().horizon.dtype == jnp.int32
    stack = cart_pole.start_ranges(4, 0.1, 0.4)
    assert {x.shape for x in stack} == {(4,)}
    np.testing.assert_allclose(stack.start, [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    np.testing.assert_array_equal(cart_pole.evenly(4, "horizon", 100, 201).horizon, [100, 134, 167, 201])
    np.testing.assert_allclose(cart_pole.evenly(3, "pole_mass", 0.1, 0.3).pole_mass, [0.1, 0.2, 0.3], rtol=1e-6)


def test_perturbed_starts_are_the_clients_own():
    draw = jax.vmap(cart_pole.perturbed_starts(), (None, 0))
    starts = np.asarray(draw(keys.of_seed(0), jnp.arange(2000)).start)
    assert starts.min() >= 0.045
    assert starts.max() <= 0.055
    np.testing.assert_allclose([starts.mean(), starts.std()], [0.05, 0.005 / np.sqrt(3.0)], rtol=0.05)
    np.testing.assert_array_equal(draw(keys.of_seed(0), jnp.array([7])).start, starts[7:8])
    assert len(np.unique(starts[:100])) > 95


def test_the_spaces_are_gymnasiums():
    env, theirs = cart_pole.environment(), gymnasium.make("CartPole-v1")
    assert env.actions == Discrete(int(theirs.action_space.n))
    assert env.observations.shape == theirs.observation_space.shape
    np.testing.assert_allclose(env.observations.high, theirs.observation_space.high)
    np.testing.assert_allclose(env.observations.low, theirs.observation_space.low)
    assert env.max_episode_steps == theirs.spec.max_episode_steps == 500


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cart_pole.evenly(3, "length", 0.1, 0.2),
            "no parameter 'length'; choose one of gravity, .*half_length",
        ),
        (lambda: cart_pole.evenly(0, "start", 0.1, 0.2), "at least one client, got clients=0"),
        (lambda: cart_pole.environment(gamma=1.5), "got 1.5 and 500"),
        (lambda: cart_pole.environment(max_episode_steps=0), "got 0.99 and 0"),
        (lambda: cart_pole.perturbed_starts(0.05, 0.06), "expected 0 <= spread <= nominal=0.05, got 0.06"),
    ],
)
def test_errors_say_what_was_wanted(call, message):
    with pytest.raises(ValueError, match=message):
        call()
