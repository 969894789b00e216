"""Drivers of Figure Eight that learn nothing, in arrays, against what is known of them (about 20 s)."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.traffic import figure_eight
from fedrl.environments.traffic.car_following import ROUND, VEHICLES
from fedrl.recipes.xu2024 import _drivers as drivers
from fedrl.recipes.xu2024 import _references as references

NOTHING = jnp.zeros((100, VEHICLES))


@pytest.fixture(scope="module")
def gentle():
    """Whole epochs in which agents command 1 m/s^2."""
    return drivers.speeds(1500, 1.0)


@pytest.mark.parametrize(("name", "in_sumo"), [(drivers.HUMANS, 5.615), (drivers.ACCELERATE, 4.454)])
def test_speeds_are_those_of_sumo(gentle, name, in_sumo):
    """`tests/environments/traffic/sumo` measures the same drivers in SUMO, whose epochs differ by .01."""
    assert gentle[name].shape == (drivers.EPOCHS,)
    assert gentle[name].mean() == pytest.approx(in_sumo, abs=0.01)
    assert gentle[name].std() < 0.02


def test_the_platoon_shows_that_there_is_room(gentle):
    """7.07 m/s with 3 m/s^2, 6.54 with 1, against 5.62 of human drivers; only agents depend on the acceleration."""
    strong = drivers.speeds(1500, 3.0)
    assert strong[drivers.PLATOON].min() > 7.0
    assert gentle[drivers.PLATOON].min() > 6.3
    np.testing.assert_array_equal(strong[drivers.HUMANS], gentle[drivers.HUMANS])
    assert strong[drivers.ACCELERATE].mean() == pytest.approx(5.73, abs=0.02)


@pytest.mark.parametrize(("free", "wanted"), [(200.0, drivers.WAITING), (210.0, drivers.CRUISING)])
def test_the_leader_waits_until_the_others_have_closed_up(free, wanted):
    """`free` m of road ahead of it; at 5 m/s it wants to go slower, then faster, by no more than it can command."""
    start = figure_eight.start(jnp.float32)
    position = start.position.at[0].set((start.position[drivers.LEADER] + 5.0 + free) % ROUND)
    accelerations = drivers.platoon(3.0)(start._replace(position=position, speed=jnp.full(VEHICLES, 5.0)))
    assert accelerations[drivers.LEADER] == pytest.approx(np.sign(wanted - 5.0) * 3.0)
    assert np.delete(np.asarray(accelerations), drivers.LEADER).tolist() == [3.0] * 13
    near = drivers.platoon(3.0)(start._replace(position=position, speed=jnp.full(VEHICLES, wanted - 0.1)))
    assert near[drivers.LEADER] == pytest.approx(1.0, abs=1e-4)


def test_nothing_counts_after_a_collision(monkeypatch):
    """Everybody collides on the way: what was driven until then is divided by the whole epoch."""
    driver, learning = drivers.platoon(3.0), figure_eight.EVERY_OTHER
    monkeypatch.setattr(drivers, "collided", lambda position: (position[1] > 31.0) & (position[1] < 31.2))
    stopped = drivers.epoch(driver, learning, NOTHING)
    monkeypatch.setattr(drivers, "collided", lambda position: position[1] > 31.0)
    assert stopped == pytest.approx(float(drivers.epoch(driver, learning, NOTHING)))
    monkeypatch.setattr(drivers, "collided", lambda position: jnp.bool_(False))
    assert 0.0 < stopped < 0.5 * drivers.epoch(driver, learning, NOTHING)


def test_levels_of_a_figure(monkeypatch):
    """SUMO's own is left out where it is not installed; the others need no SUMO."""
    monkeypatch.setattr(references, "_in_sumo", lambda network, length, *named: {})
    references.figure_eight.cache_clear()
    levels = references.figure_eight(200, 1.0)
    references.figure_eight.cache_clear()
    assert list(levels) == [drivers.HUMANS, drivers.ACCELERATE, drivers.PLATOON]
    assert levels[drivers.HUMANS] == pytest.approx(drivers.speeds(200, 1.0)[drivers.HUMANS].mean())
