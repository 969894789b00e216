import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils import seeding

from fedrl import keys
from fedrl.environments.control import mountain_car

CHANGES = (
    {},
    {"power": 0.003},
    {"goal_position": 0.1},
    {"goal_velocity": 0.03},
    {"power": 0.0008, "goal_position": -0.2, "goal_velocity": -0.02},
)


def reference(**changes):
    """Gymnasium's environment with the attributes of another world."""
    env = gymnasium.make("MountainCarContinuous-v0").unwrapped
    for name, value in changes.items():
        setattr(env, name, value)
    return env


def replay(env, physics, actions):
    """Gymnasium's state (always float32), reward and termination after one step from each of `physics`."""
    seen = []
    for start, action in zip(physics, actions, strict=True):
        env.state = start.copy()
        _, reward, terminated, _, _ = env.step(action)
        seen.append((env.state, reward, terminated))
    return [np.array(x) for x in zip(*seen, strict=True)]


def one_step(env_params, physics, steps, actions, **settings):
    """Our step from each of `physics`, all at once."""
    env = mountain_car.environment(**settings)

    @jax.jit
    def run(env_params, physics, steps, actions):
        place = env.prepare(env_params)
        return jax.vmap(lambda p, t, a: env.step(place, mountain_car.State(p, t), a, t))(physics, steps, actions)

    given = (jnp.asarray(physics, float), jnp.asarray(steps, jnp.int32), jnp.asarray(actions, float))
    return jax.tree.map(np.asarray, run(env_params, *given))


def transitions(count, dtype):
    """Random states in and on the edge of the box, at its top speed too, and actions well beyond [-1, 1]."""
    rng = np.random.default_rng(0)
    physics = np.stack([rng.uniform(-1.3, 0.7, count), rng.uniform(-0.09, 0.09, count)], axis=1)
    physics = np.clip(physics, [-1.2, -0.07], [0.6, 0.07])
    return physics.astype(dtype), rng.uniform(-2.5, 2.5, (count, 1)).astype(dtype)


def assert_same(ours, state, reward, terminated, wide):
    """Wide: to the bit once rounded as Gymnasium rounds. Otherwise to an ulp of position and of speed."""
    physics = ours.state.physics
    assert physics.dtype == ours.reward.dtype == (np.float64 if wide else np.float32)
    if wide:
        np.testing.assert_array_equal(physics.astype(np.float32), state)
    np.testing.assert_array_less(np.abs(physics.astype(np.float32) - state), np.broadcast_to([2e-7, 1e-8], state.shape))
    np.testing.assert_allclose(ours.reward, reward, rtol=0.0, atol=1e-12 if wide else 1e-5)
    np.testing.assert_array_equal(ours.terminated, terminated)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("changes", CHANGES)
def test_random_transitions_are_gymnasiums(changes, wide):
    physics, actions = transitions(2000, np.float64 if wide else np.float32)
    state, reward, terminated = replay(reference(**changes), physics, actions)
    with jax.enable_x64(wide):
        ours = one_step(mountain_car.params(**changes), physics, np.zeros(2000), actions)
    assert_same(ours, state, reward, terminated, wide)
    assert 0.02 < terminated.mean() < 0.5
    assert ((state[:, 0] == np.float32(-1.2)) & (state[:, 1] == 0.0)).any()
    assert not ours.truncated.any()


@pytest.mark.parametrize("wide", [True, False])
def test_the_shift_is_added_before_gymnasium_and_the_cost_is_as_asked(wide):
    dtype = np.float64 if wide else np.float32
    physics, actions = transitions(1000, dtype)
    shifted = actions + dtype(0.75)
    state, reward, terminated = replay(reference(), physics, shifted)
    with jax.enable_x64(wide):
        env_params = mountain_car.params(shift=0.75)
        published = one_step(env_params, physics, np.zeros(1000), actions, cost="shifted")
        ours = one_step(env_params, physics, np.zeros(1000), actions)
    assert_same(published, state, reward, terminated, wide)
    own = reward + 0.1 * shifted[:, 0].astype(float) ** 2 - 0.1 * actions[:, 0].astype(float) ** 2
    assert_same(ours, state, own, terminated, wide)
    assert np.abs(own - reward).max() > 0.1


@pytest.mark.parametrize("bounds", [(-0.6, -0.4), (-1.0, 0.2)])
def test_the_same_uniform_number_gives_gymnasiums_start(bounds):
    low, high = bounds
    env = gymnasium.make("MountainCarContinuous-v0")
    with jax.enable_x64(True):
        ours, env_params = mountain_car.environment(), mountain_car.params(start_low=low, start_high=high)
        for seed in range(20):
            uniform = seeding.np_random(seed)[0].random()
            env.reset(seed=seed, options={"low": low, "high": high})
            start = ours.reset(ours.prepare(env_params), jnp.asarray(uniform))
            np.testing.assert_allclose(start.physics, env.unwrapped.state, rtol=0.0, atol=1e-15)
            assert start.steps == 0


def test_starts_fill_their_range_at_rest():
    env, env_params = mountain_car.environment(), mountain_car.params()
    noise = env.noise(keys.of_seed(0), (5000,))
    starts = np.asarray(jax.vmap(lambda n: env.observe(env_params, env.reset(env_params, n)))(noise))
    np.testing.assert_allclose([starts[:, 0].min(), starts[:, 0].max()], [-0.6, -0.4], atol=1e-3)
    np.testing.assert_allclose(starts[:, 0].std(), 0.2 / np.sqrt(12.0), rtol=0.05)
    assert not starts[:, 1].any()


def gymnasium_episode(seed, act):
    """One whole episode of `gymnasium.make`, time limit included: states [T + 1, 2], actions, rewards, ends."""
    env = gymnasium.make("MountainCarContinuous-v0")
    start, _ = env.reset(seed=seed)
    states, actions, rewards, ends = [start], [], [], []
    while not ends or not any(ends[-1]):
        actions.append(np.array([act(states[-1])], np.float32))
        state, reward, terminated, truncated, _ = env.step(actions[-1])
        states.append(state)
        rewards.append(reward)
        ends.append((terminated, truncated))
    return np.array(states), np.array(actions), np.array(rewards), *np.array(ends).T


def test_whole_episodes_in_float32_are_gymnasiums_goal_and_time_limit_included():
    """Ours runs freely with the recorded actions: differences have all episode to grow."""
    env, env_params, rng = mountain_car.environment(), mountain_car.params(), np.random.default_rng(1)
    policies = [lambda s: 1.0 if s[1] >= 0.0 else -1.0, lambda s: rng.uniform(-1.0, 1.0)]

    @jax.jit
    def follow(start, actions):
        def step(state, action):
            after = env.step(env_params, state, action, jnp.float32(0.0))
            return after.state, after

        return jax.lax.scan(step, mountain_car.State(start, jnp.int32(0)), actions)[1]

    ends = []
    for seed in range(6):
        states, actions, rewards, terminated, truncated = gymnasium_episode(seed, policies[seed % 2])
        padded = jnp.zeros((999, 1)).at[: len(actions)].set(actions)
        after = jax.tree.map(lambda x, n=len(actions): np.asarray(x)[:n], follow(jnp.asarray(states[0]), padded))
        np.testing.assert_allclose(after.state.physics, states[1:], rtol=0.0, atol=1e-4)
        np.testing.assert_allclose(after.reward, rewards, rtol=0.0, atol=1e-5)
        np.testing.assert_array_equal(after.terminated, terminated)
        np.testing.assert_array_equal(after.truncated, truncated)
        ends.append((len(actions), bool(terminated[-1]), bool(truncated[-1])))
    assert all(length < 200 and terminated and not truncated for length, terminated, truncated in ends[::2])
    assert ends[1::2] == [(999, False, True)] * 3


def test_every_client_is_cut_exactly_at_its_own_horizon():
    horizons = np.array([1, 2, 7, 30, 39, 40, 999], np.int32)
    env = mountain_car.environment(max_episode_steps=40)

    @jax.jit
    @jax.vmap
    def play(env_params, noise):
        def step(state, noise):
            after = env.step(env_params, state, jnp.zeros(1), noise)
            return after.state, after

        return jax.lax.scan(step, env.reset(env_params, noise[0]), noise[1:])[1]

    after = play(mountain_car.params(horizon=jnp.asarray(horizons)), env.noise(keys.of_seed(0), (7, 61)))
    assert not after.terminated.any()
    assert after.reward.shape == (7, 60)
    np.testing.assert_array_equal(after.truncated, np.arange(1, 61)[None] >= np.minimum(horizons, 40)[:, None])


@pytest.mark.parametrize(
    ("level", "convention", "first", "second", "last"),
    [
        ("low", "paper", -1.0 + 2 / 60, -1.0 + 4 / 60, 1.0),
        ("medium", "paper", -1.45, -1.4, 1.5),
        ("high", "paper", -2.0 + 4 / 60, -2.0 + 8 / 60, 2.0),
        ("low", "published", -1.0, -1.0 + 2 / 60, 1.0 - 2 / 60),
        ("medium", "published", -1.5, -1.45, 1.45),
        ("high", "published", -2.0, -2.0 + 5 / 60, -2.0 + 5 * 59 / 60),
    ],
)
def test_shifts_of_sixty_cars(level, convention, first, second, last):
    env_params = mountain_car.shifts(level, convention=convention)
    assert {x.shape for x in env_params} == {(60,)}
    np.testing.assert_allclose(env_params.shift[jnp.array([0, 1, -1])], [first, second, last], rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(np.diff(env_params.shift), second - first, rtol=0.0, atol=1e-6)
    np.testing.assert_array_equal(env_params.horizon, 999)


def test_worlds_and_spaces_are_gymnasiums_by_default():
    env, theirs = mountain_car.environment(), gymnasium.make("MountainCarContinuous-v0")
    car = theirs.unwrapped
    expected = (car.power, car.goal_position, car.goal_velocity, -0.6, -0.4, 0.0, theirs.spec.max_episode_steps)
    np.testing.assert_allclose(np.array(mountain_car.params()), expected, rtol=1e-6)
    assert mountain_car.params().horizon.dtype == jnp.int32
    assert env.max_episode_steps == 999
    for ours, space in ((env.observations, theirs.observation_space), (env.actions, theirs.action_space)):
        assert ours.shape == space.shape
        np.testing.assert_allclose(ours.low, space.low)
        np.testing.assert_allclose(ours.high, space.high)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mountain_car.shifts("huge"), "level 'huge'.* choose a level of low, medium, high"),
        (lambda: mountain_car.shifts("low", convention="code"), "'code' are unknown.* of paper, published"),
        (lambda: mountain_car.shifts("low", clients=0), "got clients=0; the paper has 60"),
        (lambda: mountain_car.environment(cost="clipped"), '"policy" or "shifted", .* got \'clipped\''),
        (lambda: mountain_car.environment(max_episode_steps=0), "got 0.99 and 0"),
    ],
)
def test_errors_say_what_is_known(call, message):
    with pytest.raises(ValueError, match=message):
        call()
