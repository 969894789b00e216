"""Figure Eight in SUMO: where vehicles begin, how they drive, and the speeds of known drivers (about 5 s)."""

import libsumo
import numpy as np
import pytest

from fedrl.environments.traffic.sumo import FigureEight
from fedrl.environments.traffic.sumo.vehicles import idm

LENGTH = 421.94
EVEN = LENGTH / 14


def test_beginning(opened):
    env = opened(FigureEight)
    assert env.possible_agents == [f"vehicle_{i}" for i in range(1, 14, 2)]
    assert env.length == pytest.approx(LENGTH)
    seen = env.begin(0)
    own = np.arange(1, 14, 2)
    wanted = np.stack([own, 0 * own, (own + 1) % 14, 0 * own, own - 1, 0 * own], axis=1) / 14
    np.testing.assert_allclose(seen, wanted, atol=1e-6)
    assert seen.dtype == np.float32


def test_relative_positions_are_gaps(opened):
    seen = opened(FigureEight, relative=True).begin(0)
    np.testing.assert_allclose(seen[:, [2, 4]], (EVEN - 5.0) / LENGTH, atol=1e-6)
    np.testing.assert_allclose(seen[:, 0], np.arange(1, 14, 2) / 14, atol=1e-6)


def test_one_step(opened):
    """Agents get the speed they asked for, humans that of the model, and SUMO's own on the crossing: 2.6 m/s² at most."""
    env = opened(FigureEight, noise=0.0)
    env.begin(0)
    outcome = env.advance(np.linspace(-1.0, 1.0, 7))
    np.testing.assert_allclose(outcome.observations[:, 1] * 30.0, 0.1 * np.linspace(-1.0, 1.0, 7).clip(0.0), atol=1e-6)
    human = 0.1 * (1.0 - (2.0 / (EVEN - 5.0)) ** 2)
    speeds = [libsumo.vehicle.getSpeed(f"vehicle_{i}") for i in range(0, 14, 2)]
    np.testing.assert_allclose(speeds[:4] + speeds[5:], human, rtol=1e-6)
    assert 0.25 < speeds[4] < 0.26, "vehicle 8 stands on the crossing"
    assert outcome.mean_speed == pytest.approx((0.1 * (1 + 2 + 3) / 3 + sum(speeds)) / 14)
    assert outcome.reward == pytest.approx(outcome.mean_speed / 20.0)


def test_intelligent_driver_model():
    assert idm(0.0, 0.0, 1e9) == pytest.approx(1.0)
    assert idm(30.0, 30.0, 1e9) == pytest.approx(0.0)
    assert idm(10.0, 10.0, 12.0) == pytest.approx(-((10 / 30) ** 4))
    assert idm(10.0, 4.0, 20.0) == pytest.approx(1 - (1 / 3) ** 4 - ((12 + 60 / (2 * 1.5**0.5)) / 20) ** 2)
    assert idm(5.0, 30.0, 20.0) == pytest.approx(1 - (1 / 6) ** 4 - 0.01), "a leader who draws away does not pull"


@pytest.mark.parametrize(
    ("driver", "reference", "measured"),
    [("sumo", 5.95, 5.931), ("humans", 5.64, 5.615), ("agents", 4.49, 4.454)],
)
def test_speeds_of_known_drivers(opened, mean_speed, driver, reference, measured):
    """Measured: means of ten seeds, which differ by .01. The references are Flow's settings with other starting places."""
    speed = mean_speed(opened(FigureEight, driver), seeds=(0, 1))
    assert speed == pytest.approx(measured, abs=0.04)
    assert speed == pytest.approx(reference, rel=0.015)


def test_a_policy_that_knows_nothing_is_slow(opened):
    """Ten seeds: 0.79 ± 0.14, as against 4.45 for full acceleration. Nobody overtakes, nothing leaves its space."""
    random = np.random.default_rng(0)
    env = opened(FigureEight)
    env.begin(0)
    speeds = []
    while env.agents:
        outcome = env.advance(random.uniform(-1.0, 1.0, 7))
        speeds.append(outcome.mean_speed)
        assert all(map(env.observation_space("vehicle_1").contains, outcome.observations))
        gaps = np.diff(env._x, append=env._x[0]) % env.length
        assert gaps.min() > 5.0
        assert gaps.sum() == pytest.approx(env.length)
    assert 0.4 < np.mean(speeds) < 1.2
    assert outcome.truncated
    assert env.time == 1500


def test_a_collision_ends_the_epoch(opened, driven):
    """In mode 31 SUMO lets humans brake no harder than 1.5 m/s², too little for the model that drives them."""
    outcomes = driven(opened(FigureEight, "humans", speed_mode=31), 0)
    assert len(outcomes) == pytest.approx(156, abs=10)
    assert all(not outcome.crash and outcome.reward > 0.0 for outcome in outcomes[:-1])
    last, before = outcomes[-1], outcomes[-2]
    assert (last.crash, last.truncated, last.reward) == (True, False, 0.0)
    np.testing.assert_array_equal(last.observations, before.observations)


def test_a_collision_as_pettingzoo_sees_it(opened):
    env = opened(FigureEight, speed_mode=0)
    env.reset(seed=0)
    agents = env.agents
    while env.agents:
        _, rewards, terminations, truncations, infos = env.step({agent: np.ones(1) for agent in agents})
    assert env.time < 100
    assert set(rewards.values()) == {0.0}
    assert set(terminations.values()) == {True}
    assert set(truncations.values()) == {False}
    assert all(info["crash"] and info["mean_speed"] > 0.0 for info in infos.values())
    with pytest.raises(RuntimeError, match="the epoch is over"):
        env.step({agent: np.ones(1) for agent in agents})


def test_noise_and_speed_factors_are_all_that_is_random(opened, mean_speed):
    still = opened(FigureEight, noise=0.0, speed_dev=0.0, horizon=300)
    assert mean_speed(still, [0]) == mean_speed(still, [1])
    still.close()
    for restless in ({"noise": 0.0}, {"speed_dev": 0.0}):
        env = opened(FigureEight, **restless, horizon=300)
        assert mean_speed(env, [0]) != mean_speed(env, [1])
        env.close()


def test_what_there_is_to_draw(opened):
    env = opened(FigureEight)
    env.begin(0)
    vehicles = env.vehicles()
    assert {v.id for v in vehicles if v.learning} == set(env.possible_agents)
    assert len(vehicles) == 14
    points = np.concatenate(list(env.lanes.values()))
    assert points.shape[1] == 2
    for v in vehicles:
        assert np.linalg.norm(points - (v.x, v.y), axis=1).min() < 15.0
    first = next(v for v in vehicles if v.id == "vehicle_0")
    np.testing.assert_allclose((first.x, first.y), env.lanes["bottom_0"][0], atol=0.02)
    assert next(v for v in vehicles if v.id == "vehicle_2").angle == 0.0, "up the middle, northwards"


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="driver='sumo31', expected 'agents', 'humans' or 'sumo'"):
        FigureEight("sumo31")
    with pytest.raises(ValueError, match="acceleration > 0"):
        FigureEight(acceleration=0.0)
    with pytest.raises(ValueError, match="v_ref > 0 and horizon >= 1"):
        FigureEight(horizon=0)
