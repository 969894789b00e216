"""The Figure Eight of arrays against SUMO's. Recording takes some 10 s, everything else about as long."""

from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.sumo_figure_eight import CONTROLLERS, STEPS, Controller, RecordedEpoch, actions_at_rest, recorded

from fedrl import keys
from fedrl.environments.traffic import figure_eight
from fedrl.environments.traffic.car_following import HALF, ROUND, place_of
from fedrl.environments.traffic.figure_eight_rules import Traffic, collided

SEEDS = (0, 1, 2)
POSITION, SPEED, NUMBERS = (RecordedEpoch._fields.index(field) for field in ("position", "speed", "numbers"))


@pytest.fixture(scope="module")
def sumo():
    """Epochs of every controller in SUMO, three seeds each."""
    pytest.importorskip("libsumo")
    return recorded(list(CONTROLLERS), SEEDS)


@partial(jax.jit, static_argnames="learning")
@partial(jax.vmap, in_axes=(0, 0, 0, None))
def one_step_errors(position, speed, numbers, learning):
    """Our speed minus SUMO's after one step from each of SUMO's states, [T, 14].

    What SUMO does not tell, who came first and who has long been standing, is kept by our own rules along the way.
    """
    env_params = figure_eight.params()

    def step(memory, now):
        t, x, v, number, x_after, v_after = now
        after = figure_eight.move(env_params, Traffic(x, v, *memory), number, t, learning)
        came = (place_of(x_after).lane == 1) & (place_of(x).lane != 1)
        stands = (v_after <= 0.1) & (v_after - v <= 0.13)
        entered = jnp.where(came, t.astype(float) + 1.0, jnp.where(place_of(x).lane == 1, after.entered, 0.0))
        return (entered, jnp.where(stands, memory[1] + 1.0, 0.0)), after.speed - v_after

    now = (jnp.arange(len(numbers)), position[:-1], speed[:-1], numbers, position[1:], speed[1:])
    return jax.lax.scan(step, figure_eight.start(jnp.float32)[2:], now)[1]


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_step_from_any_state_of_sumo_is_sumos(sumo, name):
    """The issue asks for an error below 0.01 m/s in 99 % of them."""
    learning = figure_eight.EVERY_OTHER if CONTROLLERS[name] else ()
    recording = (jnp.asarray([epoch[i] for epoch in sumo[name]]) for i in (POSITION, SPEED, NUMBERS))
    errors = np.abs(one_step_errors(*recording, learning))
    assert errors.shape == (len(SEEDS), STEPS, 14)
    assert np.mean(errors < 0.01) >= 0.9995


@jax.jit
@jax.vmap
def driven(controller, want, shocks):
    """Mean speed of all vehicles after each step of an epoch under a controller, [T]; and whether there was a crash."""
    env, env_params = figure_eight.environment(), figure_eight.params(acceleration=controller.acceleration)

    def step(state, now):
        action = now[0] - controller.tracks * state.traffic.speed[1::2]
        after = env.step(env_params, state, action[:, None], now[1])
        return after.state, (jnp.mean(after.state.traffic.speed), after.terminated)

    return jax.lax.scan(step, env.reset(env_params, None), (want, shocks))[1]


@jax.jit
@jax.vmap
def undriven(shocks):
    """The same for humans in every vehicle."""

    def step(traffic, now):
        traffic = figure_eight.move(figure_eight.params(), traffic, now[1], now[0], ())
        return traffic, (jnp.mean(traffic.speed), collided(traffic.position))

    return jax.lax.scan(step, figure_eight.start(jnp.float32), (jnp.arange(STEPS), shocks))[1]


@pytest.fixture(scope="module")
def means(sumo):
    """Mean speeds of whole epochs by controller: ours, running freely with SUMO's noise, and SUMO's. [seeds] each."""
    noise = {name: [epoch.numbers for epoch in epochs] for name, epochs in sumo.items()}
    names = [name for name, controller in CONTROLLERS.items() if controller]
    runs = [(CONTROLLERS[name], actions_at_rest(CONTROLLERS[name], seed)) for name in names for seed in SEEDS]
    controllers, want = Controller(*jnp.asarray([c for c, _ in runs], float).T), jnp.asarray([w for _, w in runs])
    ours, crash = driven(controllers, want, jnp.asarray([x[:, ::2] for name in names for x in noise[name]]))
    alone, crash_alone = undriven(jnp.asarray(noise["humans"]))
    assert not crash.any()
    assert not crash_alone.any()
    rows = [alone.mean(axis=1), *ours.mean(axis=1).reshape(len(names), len(SEEDS))]
    theirs = {name: np.array([epoch.speed[1:].mean() for epoch in epochs]) for name, epochs in sumo.items()}
    return {name: (np.asarray(row), theirs[name]) for name, row in zip(["humans", *names], rows, strict=True)}


@pytest.mark.parametrize("name", CONTROLLERS)
def test_whole_epochs_have_sumos_mean_speed(means, name):
    ours, theirs = means[name]
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=0.05)


def test_controllers_rank_as_in_sumo(means):
    """Those that SUMO tells apart by 1 % or more."""
    apart = [(a, b) for a, b in combinations(means, 2) if abs(np.log(means[a][1].mean() / means[b][1].mean())) > 0.01]
    assert len(apart) >= 20
    for a, b in apart:
        assert (means[a][0].mean() > means[b][0].mean()) == (means[a][1].mean() > means[b][1].mean()), (a, b)


@pytest.mark.parametrize("relative", [False, True])
def test_observations_and_rewards_are_those_of_the_sumo_environment(sumo, relative):
    epoch = recorded(["moody"], [5], True)["moody"][0] if relative else sumo["moody"][0]
    env, env_params = figure_eight.environment(relative=relative), figure_eight.params()
    start = figure_eight.start(jnp.float32)

    def observe(x, v):
        return env.observe(env_params, figure_eight.State(start._replace(position=x, speed=v), jnp.int32(0)))

    seen = np.asarray(jax.vmap(observe)(jnp.asarray(epoch.position), jnp.asarray(epoch.speed)))
    np.testing.assert_allclose(seen, epoch.observations, atol=1e-6)
    assert (seen.min(axis=(0, 1)) >= env.observations.low).all()
    assert (seen.max(axis=(0, 1)) <= env.observations.high).all()
    np.testing.assert_allclose(start.position, epoch.position[0], atol=1e-4)
    np.testing.assert_allclose(epoch.speed[1:].mean(axis=1) / 20.0, epoch.rewards, rtol=1e-6)


def states(count, **changes):
    """`count` times the first state, with other traffic."""
    first = figure_eight.State(figure_eight.start(jnp.float32)._replace(**changes), jnp.int32(0))
    return jax.tree.map(lambda x: jnp.broadcast_to(x[None], (count, *x.shape)), first)


def test_a_thousand_worlds_of_random_agents_stay_sound():
    """Speeds in [0, 30], everyone in order, hardly ever a collision."""
    env, env_params, count = figure_eight.environment(), figure_eight.params(acceleration=3.0), 1000

    @jax.jit
    def run(state, mood, key):
        def step(state, t):
            noise = env.noise(keys.of(key, t), (count,))
            action = mood + jax.random.uniform(keys.of(key, "act", t), (count, 7, 1), minval=-1.0)
            after = jax.vmap(lambda *x: env.step(env_params, *x))(state, action, noise)
            x, v = after.state.traffic.position, after.state.traffic.speed
            gap = (jnp.roll(x, -1, axis=1) - x) % ROUND - 5.0
            return after.state, (v.min(), v.max(), gap.min(axis=1), after.terminated, after.reward)

        return jax.lax.scan(step, state, jnp.arange(600))[1]

    mood = jax.random.uniform(keys.of_seed(1), (count, 7, 1), minval=-0.5)
    low, high, gap, terminated, reward = map(np.asarray, run(states(count), mood, keys.of_seed(0)))
    assert low.min() >= 0.0
    assert 10.0 < high.max() <= 30.0
    assert gap.min() > 1.0
    assert terminated.any(axis=0).mean() < 0.01
    assert reward.shape == (600, count, 7)
    assert (reward[~terminated] > 0.0).mean() > 0.99


def crossing(first, second, v, later=0.0):
    """Vehicle 0 so many m onto the crossing in the first half, vehicle 7 in the second and `later` by so many steps."""
    start, pair, ring = figure_eight.start(jnp.float32), jnp.array([0, 7]), jnp.linspace(60.0, 180.0, 7)
    position = jnp.concatenate([ring, HALF + ring]).at[pair].set(jnp.array([30.0 + first, HALF + 30.0 + second]))
    entered = jnp.zeros(14).at[7].set(later)
    return start._replace(position=position, speed=start.speed.at[pair].set(jnp.array(v)), entered=entered)


@partial(jax.jit, static_argnames="learning")
def after(traffic, learning, acceleration=1.0):
    """Speeds of vehicles 0 and 7 one step later, without noise."""
    numbers = jnp.full(14, acceleration)
    return figure_eight.move(figure_eight.params(noise=0.0), traffic, numbers, jnp.int32(9), learning).speed[::7]


def test_who_came_later_yields_then_the_slower_one_then_the_first_by_name():
    assert after(crossing(1.0, 1.0, [4.0, 4.0], later=1.0), (0, 7)).tolist() == [pytest.approx(4.1), 0.0]
    assert after(crossing(1.0, 1.0, [4.0, 4.1]), (0, 7)).tolist() == [0.0, pytest.approx(4.2)]
    assert after(crossing(1.0, 1.0, [4.0, 4.0]), (0, 7)).tolist() == [0.0, pytest.approx(4.1)]
    assert after(crossing(4.0, 1.0, [4.0, 4.0]), (0, 7)).tolist() == [pytest.approx(4.1), 0.0]


def test_sumo_alone_brakes_with_9_and_a_command_without_bounds():
    traffic = crossing(4.0, 2.0, [6.0, 6.0])
    assert after(traffic, ())[1] == pytest.approx(6.0 - 0.9)
    assert after(traffic, (7,))[1] == 0.0


def test_who_has_to_yield_at_a_crossing_and_could_stop_there_plans_to_stop_behind_it():
    """28 m before it at 14 m/s; the road behind it ends 39.4 m farther, 1 m short of that. The rest are far ahead."""
    half = np.array([2.0, *np.linspace(140.0, 200.0, 6)])
    traffic = figure_eight.start(jnp.float32)._replace(
        position=jnp.asarray(np.concatenate([half, HALF + half]), float), speed=jnp.full(14, 14.0)
    )
    free, wanted = 1.0 - (14.0 / 30.0) ** 4, 14.0 + 14.0**2 / (2.0 * np.sqrt(2.6 * 4.5))
    expected = 14.0 + 0.26 * np.array([free, free - (wanted / (28.0 + 39.4 - 1.0)) ** 2])
    np.testing.assert_allclose(after(traffic, (0, 7), 3.0), expected, rtol=1e-5)


def at(*positions):
    """Whether the first vehicles collide there; the others stand on the ring of the second half, 8 m apart."""
    rest = 300.0 + 8.0 * np.arange(14 - len(positions))
    return bool(collided(jnp.sort(jnp.asarray(np.array([*positions, *rest]), jnp.float32))))


def test_collisions_are_bumpers_that_touch_and_bodies_that_cross():
    assert not at(100.0, 105.26)
    assert at(100.0, 105.24)
    assert not at(0.1, ROUND - 6.0)
    assert at(0.1, ROUND - 5.0)
    middle = 34.7
    assert at(middle, HALF + middle + 5.8)
    assert not at(middle, HALF + middle + 6.0)
    assert not at(middle - 1.0, HALF + middle)
    assert not at(middle, middle + 6.0)


def test_our_vehicles_collide_when_sumos_do():
    """Seed 10 of the moody: one of few epochs in which it comes to that. Give or take a step."""
    pytest.importorskip("libsumo")
    controller, (epoch,) = CONTROLLERS["moody"], recorded(["moody"], [10])["moody"]
    before = len(epoch.speed) - 1
    assert 100 < before < STEPS
    noise = np.concatenate([epoch.numbers[:, ::2], np.zeros((2, 7))])
    want = actions_at_rest(controller, 10)[: len(noise)]
    found = driven(Controller(*jnp.asarray([controller], float).T), jnp.asarray([want]), jnp.asarray([noise]))
    speeds, crash = (np.asarray(x)[0] for x in found)
    assert abs(np.argmax(crash) - before) <= 1
    np.testing.assert_allclose(speeds[:before], epoch.speed[1:].mean(axis=1), atol=0.01)


def test_a_collision_ends_the_epoch_without_reward():
    env, env_params, start = figure_eight.environment(), figure_eight.params(), figure_eight.start(jnp.float32)
    both = start.position.at[jnp.array([1, 8])].set(jnp.array([34.0, HALF + 34.0]))
    state = figure_eight.State(start._replace(position=both, speed=jnp.full(14, 9.0)), jnp.int32(0))
    after = jax.jit(env.step)(env_params, state, jnp.ones((7, 1)), jnp.zeros(7))
    assert after.terminated
    assert not after.truncated
    assert after.state.traffic.speed.mean() > 5.0
    np.testing.assert_array_equal(after.reward, np.zeros(7))


def test_every_world_is_cut_exactly_at_its_own_horizon():
    env, horizons = figure_eight.environment(max_episode_steps=4), np.array([1, 2, 3, 9], np.int32)

    @jax.jit
    @jax.vmap
    def run(env_params):
        def step(state, _):
            after = env.step(env_params, state, jnp.ones((7, 1)), jnp.zeros(7))
            return after.state, (after.truncated, after.terminated)

        return jax.lax.scan(step, env.reset(env_params, None), length=6)[1]

    truncated, terminated = run(figure_eight.params(horizon=jnp.asarray(horizons)))
    assert not terminated.any()
    np.testing.assert_array_equal(truncated, np.arange(1, 7)[None] >= np.minimum(horizons, 4)[:, None])


def test_worlds_differ_in_their_parameters_alone():
    """First step from rest: agents by their acceleration, humans by a (1 - (s_0 / gap)^2) and noise, else SUMO."""
    env = figure_eight.environment()
    env_params = figure_eight.params(
        acceleration=jnp.array([1.0, 2.0]), a=jnp.array([1.0, 0.5]), noise=jnp.array([0.0, 1.0])
    )
    assert {x.shape for x in env_params} == {(2,)}
    action = jnp.broadcast_to(jnp.linspace(0.1, 7.0, 7)[None, :, None], (2, 7, 1))
    noise = jnp.ones((2, 7))
    after = jax.jit(jax.vmap(env.step))(env_params, states(2), action, noise)
    v = np.asarray(after.state.traffic.speed)
    gap = ROUND / 14 - 5.0
    human = np.array([1.0, 0.5]) * (1.0 - (2.0 / gap) ** 2) + np.array([0.0, 1.0]) * np.sqrt(0.1)
    humans = [0, 2, 4, 6, 10, 12]
    np.testing.assert_allclose(v[:, humans], np.broadcast_to(0.1 * human[:, None], (2, 6)), rtol=1e-4)
    np.testing.assert_allclose(v[:, 1], [0.01, 0.02], rtol=1e-4)
    np.testing.assert_allclose(v[:, 3::2], np.broadcast_to([[0.1], [0.2]], (2, 6)), rtol=1e-4)
    np.testing.assert_allclose(v[:, 8], 0.26 * (1.0 - (2.5 / gap) ** 2), rtol=1e-4)
    np.testing.assert_allclose(after.reward, np.broadcast_to(v.mean(axis=1)[:, None] / 20.0, (2, 7)), rtol=1e-5)


def test_any_vehicles_may_learn():
    for learning in ((0, 5), tuple(range(14))):
        env, env_params = figure_eight.environment(learning=learning), figure_eight.params(noise=0.0)
        noise = env.noise(keys.of_seed(0), (3,))
        assert (env.agents, noise.shape) == (len(learning), (3, 14 - len(learning)))
        slowest = jnp.full((len(learning), 1), -1.0)
        after = jax.jit(env.step)(env_params, env.reset(env_params, noise[0]), slowest, noise[0])
        stopped = np.asarray(after.state.traffic.speed) == 0.0
        np.testing.assert_array_equal(np.flatnonzero(stopped), learning)
        seen = env.observe(env_params, after.state)
        assert (seen.shape, after.reward.shape) == ((len(learning), 6), (len(learning),))
        np.testing.assert_allclose(seen[:, 0] * ROUND, after.state.traffic.position[np.array(learning)], rtol=1e-5)


@pytest.mark.parametrize("learning", [(), (1, 1), (3, 1), (1, 14), (-1,)])
def test_a_fleet_that_does_not_exist_is_refused(learning):
    with pytest.raises(ValueError, match="`learning` must list at least one vehicle from 0 to 13"):
        figure_eight.environment(learning=learning)
