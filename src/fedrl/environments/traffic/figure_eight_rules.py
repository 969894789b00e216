"""One step of SUMO's traffic on the Figure Eight in speed mode 1: car following, and right of way at the crossing.

Mode 1 yields only to vehicles that are on the crossing already. Everyone plans from the same moment. The rules are those
of SUMO 1.28, restated from its public sources and its behaviour, and tested against it.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.traffic.car_following import (
    ACCELERATION,
    END,
    ENTRY,
    EXIT,
    HALF,
    LENGTH,
    ROUND,
    SECONDS,
    STANDSTILL,
    VEHICLES,
    Driver,
    Place,
    behind,
    between,
    driver_of,
    follow,
    following,
    gaps,
    place_of,
    short_of,
    stop,
)

WIDTH = 1.8  # m, of a vehicle
ZONE, ACROSS = (
    3.1,
    3.2,
)  # m: from the start of a crossing to the zone that both streams use, and the length of that zone
EMERGENCY = 9.0  # m/s^2: SUMO on its own brakes no harder
HALTING, PATIENCE = (
    0.1,
    50,
)  # m/s below which a vehicle stands, and steps of standing after which no vehicle waits for it
SEEN_CLEARLY = 4.5  # m from a crossing at which one that has to yield can see everybody
NOT_YET, LATE, NEVER = -1.0, 1e9, 2e9  # outside the range of step numbers
# SUMO compares names, as text
TIES = np.argsort(np.argsort([f"vehicle_{i}" for i in range(VEHICLES)])).astype(np.int32)


class Traffic(NamedTuple):
    position: Array  # [14] m since the start of the first half, below ROUND
    speed: Array  # [14]
    entered: Array  # [14] the step in which it entered the crossing it is on; NEVER: it is stuck there
    stood: Array  # [14] steps for which it has been standing


class Way(NamedTuple):
    """To the next crossing, or to the end of the one that a vehicle is on."""

    inside: Array  # already on it
    minor: Array  # its stream has to yield there
    entry: Array  # m to where it begins; negative inside
    planned: Array  # near enough to matter


class Foe(NamedTuple):
    """A vehicle of the other stream: one for all, or for each vehicle its own."""

    there: Array  # it touches the crossing
    along: Array
    speed: Array
    entered: Array
    stood: Array
    tie: Array


def drive(traffic: Traffic, braking: Array, command: Array, step: Array) -> Traffic:
    """`braking` is each vehicle's comfortable deceleration, `command` its commanded speed, infinite where SUMO decides."""
    speed, stuck = _speeds(traffic, braking, command)
    position = traffic.position + SECONDS * speed
    position = jnp.where(position >= ROUND, position - ROUND, position)
    before, now = place_of(traffic.position), place_of(position)
    # a stuck vehicle loses its turn; once free it goes last, or from then on if it has the right of way
    again = jnp.where(before.second, LATE, step)
    entered = jnp.where(traffic.entered == NEVER, again, jnp.maximum(traffic.entered, 0.0))
    entered = jnp.where(stuck & (before.lane == 1) & (speed < HALTING), NEVER, entered)
    entered = jnp.where((now.lane == 1) & (before.lane != 1), step + 1.0, entered)
    standing = (speed <= HALTING) & (speed - traffic.speed <= 0.5 * ACCELERATION * SECONDS)
    return Traffic(position, speed, entered, jnp.where(standing, traffic.stood + 1.0, 0.0))


def collided(position: Array) -> Array:
    """Bumpers closer than a tenth of the standstill gap, or bodies across each other in the middle of the crossing."""
    place = place_of(position)
    middle = place.along - (ENTRY + EXIT) / 2
    across = (middle > -WIDTH / 2) & (middle < LENGTH + WIDTH / 2)
    both = jnp.any(across & place.second) & jnp.any(across & ~place.second)
    return jnp.any(gaps(position) < 0.1 * STANDSTILL) | both


def _speeds(traffic: Traffic, braking: Array, command: Array) -> tuple[Array, Array]:
    """The speeds after a step, and which vehicles have one in front that has been standing for long."""
    driver, place = driver_of(traffic.speed, braking), place_of(traffic.position)
    past_crossing = place.lane >= 2
    entry = jnp.where(past_crossing, HALF + ENTRY, ENTRY) - place.along
    way = Way(place.lane == 1, place.second ^ past_crossing, entry, ~past_crossing | (entry <= driver.sight))
    first = _first_past(traffic.position, ENTRY), _first_past(traffic.position, HALF + ENTRY)

    bound = jnp.minimum(command, following(driver, traffic.position, place))
    short = jnp.where(way.minor, 0.1, short_of(driver, entry))
    wait = jnp.minimum(bound, stop(driver, jnp.maximum(entry - short, 0.0)))  # in front of the crossing
    bound = jnp.minimum(bound, _unrequested(driver, place, way))
    yields = [_yielding(driver, traffic, way, foe) for foe in _foes(traffic, place, way, first)]
    speed = jnp.minimum(bound, jnp.minimum(*(speed for speed, _ in yields)))
    bound = jnp.where(way.inside, speed, jnp.maximum(speed, jnp.minimum(bound, wait)))
    stuck = yields[0][1] | yields[1][1]
    blocked = (stuck & (bound < HALTING)) | ~_room(traffic, place, braking, first)
    held = (place.lane == 0) & (entry >= driver.stretch + 0.1) & blocked
    bound = jnp.where(held, jnp.minimum(bound, wait), bound)
    return jnp.where(jnp.isinf(command), jnp.maximum(bound, traffic.speed - SECONDS * EMERGENCY), bound), stuck


def _first_past(position: Array, line: float) -> Array:
    """The number of the first vehicle beyond a line."""
    past = between(jnp.full_like(position, line), position)
    return jnp.sum(jnp.where(past < behind(past), jnp.arange(VEHICLES), 0))


def _unrequested(driver: Driver, place: Place, way: Way) -> Array:
    """A vehicle that can still stop where it has to yield plans only to the end of the road behind the crossing."""
    planned = (place.lane == 0) | ((place.lane >= 2) & (way.entry + (EXIT - ENTRY) <= driver.sight))
    held = way.minor & planned & (way.entry > driver.stretch) & (way.entry > SEEN_CLEARLY)
    end = way.entry + (END - ENTRY)
    return jnp.where(held, stop(driver, end - short_of(driver, end)), jnp.inf)


def _foes(traffic: Traffic, place: Place, way: Way, first: tuple[Array, Array]) -> tuple[Foe, Foe]:
    """The two vehicles of the other stream that may be on each one's next crossing: no more fit on it."""
    tie = jnp.asarray(TIES)

    def numbered(number: Array, second: bool) -> Foe:
        along = place.along[number]
        there = (place.second[number] == second) & (along > ENTRY) & (along < EXIT + LENGTH)
        return Foe(there, along, traffic.speed[number], traffic.entered[number], traffic.stood[number], tie[number])

    def each(count: int) -> Foe:
        major, minor = (numbered((first[half] + count) % VEHICLES, bool(half)) for half in (0, 1))
        return Foe(*(jnp.where(way.minor, x, y) for x, y in zip(major, minor, strict=True)))

    return each(0), each(1)


def _yielding(driver: Driver, traffic: Traffic, way: Way, foe: Foe) -> tuple[Array, Array]:
    """The speed with regard to a foe, infinite if there is no need; and whether it has been standing for long."""
    zone = way.entry + ZONE  # m to what both streams use
    rear = ENTRY + ZONE - (foe.along - LENGTH)  # m that the foe's rear has to it
    in_the_way = (foe.along > ENTRY + ZONE) & (zone > 0.0)
    slower = (driver.speed < foe.speed) | ((driver.speed == foe.speed) & (foe.tie > TIES))
    later = (traffic.entered > foe.entered) | ((traffic.entered == foe.entered) & slower)
    passing = (foe.entered != NEVER) & (foe.entered != NOT_YET)
    goes_first = (foe.along > EXIT) | (passing & (~way.inside | later))
    counts = foe.there & way.planned & (zone >= -0.1) & (rear >= -ACROSS) & (in_the_way | goes_first)

    passes = STANDSTILL + rear + ACROSS
    gap = zone - passes
    in_front = jnp.where(way.inside, 0.0, stop(driver, way.entry - 0.1))
    speed = jnp.where(gap >= 0.0, follow(driver, gap + STANDSTILL, foe.speed), in_front)
    time = passes / jnp.maximum(foe.speed, HALTING)
    final = jnp.maximum(driver.speed, 2.0 * (zone - STANDSTILL) / time - driver.speed)
    slowly = jnp.minimum(driver.speed + SECONDS * (final - driver.speed) / time, stop(driver, zone - STANDSTILL))
    speed = jnp.where(zone >= 0.0, jnp.maximum(speed, slowly), speed)
    return jnp.where(counts, speed, jnp.inf), counts & (foe.stood > PATIENCE)


def _room(traffic: Traffic, place: Place, braking: Array, first: tuple[Array, Array]) -> Array:
    """Whether there is room across the crossing behind vehicles that stand or creep: SUMO keeps crossings clear."""
    v, along, number, each = traffic.speed, place.along, jnp.arange(VEHICLES), LENGTH + STANDSTILL
    nearest = jnp.where(place.second, first[1], first[0])
    rank = ((number - nearest) % VEHICLES).astype(v.dtype)  # vehicles between the crossing's begin and this one
    stands = jnp.where((place.lane == 2) & (v < HALTING), along - LENGTH - EXIT - each * rank, jnp.inf)
    touches = (along > EXIT) & (along < END + LENGTH)
    last = touches & ~(behind(touches) & (behind(place.second) == place.second))
    busy = (place.lane == 1) | (place.lane == 2)

    def left(half: Array) -> Array:
        """m, infinite if all go on."""
        full = END - EXIT - each * jnp.sum(half & busy).astype(v.dtype)
        creeping = jnp.where(jnp.any(half & last & (v < braking)), full, jnp.inf)
        standing = jnp.min(jnp.where(half, stands, jnp.inf))
        return jnp.where(jnp.isinf(standing), creeping, standing)

    queue = ((nearest - 1 - number) % VEHICLES).astype(v.dtype)
    return jnp.where(place.second, left(place.second), left(~place.second)) - each * queue >= each
