"""The road of the Figure Eight as SUMO builds it, and how SUMO's intelligent driver model (IDM) follows and stops on it.

The road is two equal halves one after the other. Each is a straight road of 30 m to the crossing, 9.4 m across it, 30 m
away from it and three quarters of a ring; the first half has the right of way. Nobody overtakes: neighbours in an array
[14] are neighbours on the road.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

VEHICLES = 14
SECONDS = 0.1  # of a step
HALF, ENTRY, EXIT, END = 210.97, 30.0, 39.4, 69.4
# m: the length of a half, and where in it the crossing starts, the crossing ends and the road out ends
ROUND = 2 * HALF
LENGTH, STANDSTILL = 5.0, 2.5  # m: a vehicle, and the gap that SUMO leaves ahead of it at rest
ACCELERATION, TOP_SPEED = 2.6, 30.0


class Place(NamedTuple):
    second: Array  # in the second half
    along: Array  # m since the start of its half
    lane: Array  # 0: towards the crossing, 1: on it, 2: away from it, 3: on the ring


class Driver(NamedTuple):
    speed: Array
    share: Array  # v / (2 sqrt(a b))
    free: Array  # the speed after a step on an empty road
    stretch: Array  # m to a stop
    sight: Array  # m that it plans ahead


def ahead(x: Array, count: int = 1) -> Array:
    return jnp.roll(x, -count, -1)


def behind(x: Array) -> Array:
    return jnp.roll(x, 1, -1)


def between(rear: Array, front: Array) -> Array:
    """m from one position forward to another."""
    difference = front - rear
    return jnp.where(difference < 0.0, difference + ROUND, difference)


def gaps(position: Array) -> Array:
    """m from each bumper to the one ahead."""
    return between(position, ahead(position)) - LENGTH


def place_of(position: Array) -> Place:
    second = position >= HALF
    along = jnp.where(second, position - HALF, position)
    passed = ((along > line).astype(jnp.int32) for line in (ENTRY, EXIT, END))
    return Place(second, along, sum(passed, jnp.int32(0)))


def driver_of(speed: Array, braking: Array) -> Driver:
    most = jnp.minimum(speed + SECONDS * ACCELERATION, TOP_SPEED)
    return Driver(
        speed=speed,
        share=speed / (2.0 * jnp.sqrt(ACCELERATION * braking)),
        free=speed + SECONDS * ACCELERATION * (1.0 - (speed / TOP_SPEED) ** 4),
        stretch=_brake_gap(speed, braking),
        sight=(SECONDS + 1.0) * most + _brake_gap(most, braking),
    )


def follow(driver: Driver, gap: Array, leader: Array) -> Array:
    """The speed behind a leader of this speed; `gap` is from bumper to bumper."""
    moving_gap = jnp.maximum(driver.speed + driver.share * (driver.speed - leader), 0.0)
    return _idm(driver, STANDSTILL + moving_gap, gap)


def stop(driver: Driver, gap: Array) -> Array:
    """The speed in front of a line; never across it."""
    speed = _idm(driver, driver.speed + driver.share * driver.speed, gap)
    return jnp.where(gap < 0.01, 0.0, jnp.minimum(speed, gap / SECONDS))


def short_of(driver: Driver, end: Array) -> Array:
    """m by which a vehicle with the right of way would stop short of a lane's end, so as not to brake too hard."""
    return jnp.where(end < driver.stretch, 1.0, jnp.clip(end - driver.stretch, 0.1, 1.0))


def following(driver: Driver, position: Array, place: Place) -> Array:
    """Behind the vehicle ahead, and behind the last one on the next lane that is not empty, as far as they can be seen.

    A vehicle sees to the end of the next road, and farther only if it plans for more.
    """
    end = jnp.where(place.along <= EXIT, END, jnp.where(place.along <= END, HALF - 0.1, HALF + ENTRY)) - place.along
    end = jnp.where((end <= driver.sight) & (driver.speed > 0.0), ROUND, end)
    leader, speed, gap = ahead(position), ahead(driver.speed), gaps(position)
    bound = jnp.where(gap <= end, follow(driver, gap, speed), driver.free)

    lane = place.lane + 4 * place.second.astype(jnp.int32)
    on_next_lane = ahead(lane) != lane
    for count in (1, 2, 4, 8):  # past all that share one's lane, twice as many each time
        leader = jnp.where(on_next_lane, leader, ahead(leader, count))
        speed = jnp.where(on_next_lane, speed, ahead(speed, count))
        on_next_lane |= ahead(on_next_lane, count)
    gap_ahead = between(position, leader) - LENGTH
    in_sight = (gap_ahead <= end) & (gap_ahead > gap)
    return jnp.where(in_sight, jnp.minimum(bound, follow(driver, gap_ahead, speed)), bound)


def _idm(driver: Driver, desired_gap: Array, gap: Array) -> Array:
    return jnp.maximum(driver.free - SECONDS * ACCELERATION * (desired_gap / jnp.maximum(gap, 1e-3)) ** 2, 0.0)


def _brake_gap(speed: Array, braking: Array) -> Array:
    """m to a stop, braking from the next step on."""
    less = braking * SECONDS
    steps = jnp.floor(speed / less)
    return SECONDS * (steps * speed - less * steps * (steps + 1.0) / 2.0)
