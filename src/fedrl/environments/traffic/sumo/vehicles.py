"""Vehicles: their SUMO types, the intelligent driver model of Flow's humans, and their places for drawing."""

from collections.abc import Container
from math import sqrt
from typing import NamedTuple

import libsumo

LENGTH = 5.0  # m
TOP_SPEED = 30.0  # m/s
COMMAND = 0.001  # s: `slowDown` over less than a step reaches its speed in one step, and lasts no longer


class Vehicle(NamedTuple):
    """A vehicle's place, for drawing."""

    id: str
    x: float  # m, the middle of its front bumper
    y: float
    angle: float  # degrees from north, clockwise
    learning: bool


def kind(name: str, *, decel: float, speed_dev: float, accel: float = 2.6) -> str:
    """A `vType` as Flow has it: SUMO's own IDM. Speed factors are drawn from N(1, speed_dev), between 0.2 and 2."""
    return (
        f'<vType id="{name}" carFollowModel="IDM" accel="{accel}" decel="{decel}" tau="1" minGap="2.5" '
        f'maxSpeed="{TOP_SPEED}" speedFactor="1" speedDev="{speed_dev}" sigma="0.5" impatience="0.5" length="{LENGTH}"/>'
    )


def idm(speed: float, ahead: float, gap: float) -> float:
    """The acceleration of Flow's human: v0 = 30, T = 1, a = 1, b = 1.5, delta = 4, s0 = 2; `gap` from bumper to bumper."""
    desired_gap = 2.0 + max(0.0, speed + speed * (speed - ahead) / _TWICE_ROOT_AB)
    return 1.0 - (speed / TOP_SPEED) ** 4 - (desired_gap / (gap if abs(gap) > 1e-3 else 1e-3)) ** 2


_TWICE_ROOT_AB = 2 * sqrt(1.0 * 1.5)


def on_road(learning: Container[str]) -> list[Vehicle]:
    """All vehicles on the road; those in `learning` are marked."""
    vehicles = []
    for v in libsumo.vehicle.getIDList():
        if libsumo.vehicle.getLaneID(v):  # none: it has collided
            x, y = libsumo.vehicle.getPosition(v)
            vehicles.append(Vehicle(v, x, y, libsumo.vehicle.getAngle(v), v in learning))
    return vehicles
