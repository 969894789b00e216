"""Drivers of Figure Eight that learn nothing, in arrays: what learnt controllers have to be compared with.

Human drivers alone; agents that always accelerate; and a platoon. In the platoon one agent waits for all the others to
close up behind it and then leads them at a steady speed, while the other agents always accelerate. Fourteen vehicles that
close up are shorter than one half of the road, so that nobody has to wait at the crossing.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.environments.traffic import figure_eight
from fedrl.environments.traffic.car_following import SECONDS, VEHICLES, gaps
from fedrl.environments.traffic.figure_eight import EVERY_OTHER
from fedrl.environments.traffic.figure_eight_rules import Traffic, collided

HUMANS, ACCELERATE, PLATOON = "human drivers alone", "always accelerate", "platoon"
EPOCHS, SEED = 8, 5
LEADER = EVERY_OTHER[-1]
CLOSED_UP = 205.0  # m of free road ahead of the leader once the others have closed up behind it
WAITING, CRUISING = 3.0, 9.0  # m/s of the leader before and after that: the best of 60 settings, on another seed

Driver = Callable[[Traffic], Array]  # acceleration of every vehicle, m/s^2


def speeds(length: int, acceleration: float) -> dict[str, np.ndarray]:
    """Mean speed in m/s of each of `EPOCHS` epochs of `length` steps; `acceleration` is what an agent can command."""
    drivers: dict[str, tuple[Driver, Sequence[int]]] = {
        HUMANS: (_accelerate(acceleration), ()),
        ACCELERATE: (_accelerate(acceleration), EVERY_OTHER),
        PLATOON: (platoon(acceleration), EVERY_OTHER),
    }
    noise = jax.random.normal(keys.of_seed(SEED), (EPOCHS, length, VEHICLES))
    return {
        name: np.asarray(jax.jit(jax.vmap(partial(epoch, driver, learning)))(noise), np.float64)
        for name, (driver, learning) in drivers.items()
    }


def epoch(driver: Driver, learning: Sequence[int], noise: Array) -> Array:
    """Mean speed of an epoch with these `learning` vehicles; `noise` [T, 14] is that of humans. Zero after a collision."""
    learns = np.isin(np.arange(VEHICLES), learning)

    def step(carry: tuple[Traffic, Array], now: tuple[Array, Array]) -> tuple[tuple[Traffic, Array], Array]:
        (traffic, goes_on), (steps, shocks) = carry, now
        numbers = jnp.where(learns, driver(traffic), shocks)
        traffic = figure_eight.move(figure_eight.params(), traffic, numbers, steps, learning)
        goes_on &= ~collided(traffic.position)
        return (traffic, goes_on), jnp.where(goes_on, jnp.mean(traffic.speed), 0.0)

    first = figure_eight.start(jnp.float32), jnp.bool_(True)
    _, speed = jax.lax.scan(step, first, (jnp.arange(len(noise), dtype=jnp.int32), noise))
    return jnp.mean(speed)


def platoon(acceleration: float) -> Driver:
    def drive(traffic: Traffic) -> Array:
        wanted = jnp.where(gaps(traffic.position)[LEADER] < CLOSED_UP, WAITING, CRUISING)
        leads = jnp.clip((wanted - traffic.speed[LEADER]) / SECONDS, -acceleration, acceleration)
        return _accelerate(acceleration)(traffic).at[LEADER].set(leads)

    return drive


def _accelerate(acceleration: float) -> Driver:
    return lambda traffic: jnp.full_like(traffic.speed, acceleration)
