"""The roads of an OpenStreetMap file as a Gymnasium environment: one car learns among ten that SUMO drives (`xie2025` §5.1).

The paper specifies neither the length of an episode or a step nor the reward: these are our choice, as is the exact
definition of the 18 observations. The reward and the rule for lane changes are those of Flow's lane-changing environment
(Wu et al. 2017).
"""

from pathlib import Path
from typing import Any

import gymnasium as gym
import libsumo
import numpy as np
from gymnasium.spaces import Box

from fedrl.environments.traffic.osm import lanes, network
from fedrl.environments.traffic.osm.driving import Destinations, Way
from fedrl.environments.traffic.osm.sight import SEEN, Place, Sight
from fedrl.environments.traffic.sumo import vehicles
from fedrl.environments.traffic.sumo.network import write_routes
from fedrl.environments.traffic.sumo.simulation import Simulation
from fedrl.environments.traffic.sumo.vehicles import COMMAND, Vehicle

LEARNER = "learner"
OTHERS = [f"car_{i}" for i in range(10)]
EVERYONE = [LEARNER, *OTHERS]
REFUSED = 5  # steps after a change of lanes in which there is no other
CHANGE_COST = 0.1
LANE_CHANGES = 513  # on command, if there is a gap; else only where its lane ends


class OsmRoads(gym.Env[np.ndarray, np.ndarray]):
    """Observations as in `Sight`. Of the two actions in [-1, 1] the first is the acceleration attempted, of `max_accel`
    m/s² upwards and of `max_decel` downwards; the second, rounded, a change of lanes: 1 to the left, -1 to the right. For
    five steps after a change the learner cannot make another. SUMO moves it off a lane that ends.

    Reward: max(0, |V| - |v - V|) / |V|, where v are the speeds of all vehicles and V has `target_speed` for each; less 0.1
    if the learner has changed lanes. A collision of the learner ends the episode, with reward 0. Vehicles begin standing at
    places drawn at random and never leave: on its last edge a vehicle gets a new destination.

    `speed_mode` is what SUMO still enforces for the learner: by default safe distances, but neither right of way nor
    lights (1). With driver="sumo" SUMO drives the learner like the others, whatever the actions, as a
    baseline. There is one simulation per process: close() one before using another, or see `federation`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        target_speed: float | None = None,
        max_accel: float = 3.0,
        max_decel: float = 3.0,
        lefthand: bool = False,
        horizon: int = 512,
        dt: float = 0.5,
        speed_dev: float = 0.1,
        speed_mode: int = 1,
        driver: str = "agent",
    ) -> None:
        if driver not in ("agent", "sumo"):
            raise ValueError(f'driver must be "agent" or "sumo", got {driver!r}')
        settings = {"target_speed": target_speed, "max_accel": max_accel, "max_decel": max_decel, "horizon": horizon}
        if (
            not all(number is None or number > 0 for number in settings.values())
            or not 0.0 < dt <= 0.5
            or speed_dev < 0.0
        ):
            settings |= {"dt": dt, "speed_dev": speed_dev}
            raise ValueError(f"expected positive numbers, dt of at most 0.5 and speed_dev >= 0, got {settings}")
        file = network.build(path, lefthand=lefthand)
        self._lanes = lanes.read(file)
        self._places = lanes.places(self._lanes)
        if len(self._places) < len(EVERYONE) or len(lanes.long_edges(self._lanes)) < 2:
            raise ValueError(
                f"{path}: {len(lanes.long_edges(self._lanes))} connected edges of {lanes.LONG:g} m or more have room for "
                f"{len(self._places)} vehicles, expected 2 and {len(EVERYONE)}; take a larger area"
            )
        limits = [self._lanes.lanes[own[0]].limit for own in self._lanes.edges.values()]
        self.target_speed = max(limits) if target_speed is None else target_speed
        self.max_accel, self.max_decel, self.horizon, self.dt, self.time = max_accel, max_decel, horizon, dt, 0
        self._speed_mode, self._driver = speed_mode, driver
        self._sight = Sight(self._lanes, lefthand=lefthand)
        kind = vehicles.kind("car", accel=max_accel, decel=max_decel, speed_dev=speed_dev)
        self._simulation = Simulation(file, write_routes(f"<routes>{kind}</routes>"), dt=dt)
        self._running = False
        self.observation_space = Box(0.0, 1.0, (SEEN,), np.float32)
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode, fully determined by `seed`; without one it is the next in the sequence of the last seed."""
        super().reset(seed=seed)
        self._running = False
        streams = np.random.SeedSequence(int(self.np_random.integers(2**63))).spawn(3 + len(OTHERS))
        sumo, places, way, *destinations = map(np.random.default_rng, streams)
        self._simulation.begin(int(sumo.integers(2**31)))
        self._insert(places)
        self._way = Way(self._lanes, LEARNER, way)
        self._destinations = Destinations(self._lanes, dict(zip(OTHERS, destinations, strict=True)))
        self.time, self._changed = 0, -REFUSED
        self._look()
        self._running = True
        return self._seen.copy(), {"mean_speed": self._mean_speed()}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self._running:
            raise RuntimeError("the episode is over or has not begun: call reset()")
        wish = np.asarray(action, float)
        if wish.shape != (2,) or not np.isfinite(wish).all():
            raise ValueError(f"action {action!r}, expected an acceleration and a change of lanes, both in [-1, 1]")
        push, side = np.clip(wish, -1.0, 1.0).tolist()
        self.time += 1
        target = self._command(push, round(side))
        self._simulation.step()
        crash = any(LEARNER in (c.collider, c.victim) for c in libsumo.simulation.getCollisions())
        changed = False
        if not crash:
            self._look()
            changed = self._places_now[LEARNER].lane == target
        if changed:
            self._changed = self.time
        truncated = self.time >= self.horizon and not crash
        self._running = not (crash or truncated)
        reward = 0.0 if crash else self._desired_velocity() - CHANGE_COST * changed
        info = {"mean_speed": self._mean_speed(), "crash": crash, "changed": changed}
        return self._seen.copy(), reward, crash, truncated, info

    def vehicles(self) -> list[Vehicle]:
        """Every vehicle on the road, for drawing."""
        self._simulation.check()
        return vehicles.on_road([LEARNER])

    def close(self) -> None:
        self._running = False
        self._simulation.close()

    def _insert(self, random: np.random.Generator) -> None:
        chosen = random.choice(len(self._places), len(EVERYONE), replace=False)
        for v, place in zip(EVERYONE, chosen, strict=True):
            lane, position = self._places[place]
            edge, number = self._lanes.lanes[lane][:2]
            libsumo.route.add(v, [edge])
            libsumo.vehicle.add(v, v, "car", departLane=str(number), departPos=str(position), departSpeed="0")
        self._simulation.step()  # puts all vehicles on the road; none has moved yet
        if missing := set(EVERYONE) - set(libsumo.vehicle.getIDList()):
            raise RuntimeError(f"SUMO has not put {sorted(missing)} on the road; reset() with another seed")
        if self._driver == "agent":
            libsumo.vehicle.setSpeedMode(LEARNER, self._speed_mode)
            libsumo.vehicle.setLaneChangeMode(LEARNER, LANE_CHANGES)

    def _command(self, push: float, side: int) -> str | None:
        """Send the learner's command to SUMO; returns the lane it tries to change to."""
        if self._driver == "sumo":
            return None
        own = self._places_now[LEARNER]
        speed = own.speed + push * (self.max_accel if push > 0.0 else self.max_decel) * self.dt
        libsumo.vehicle.slowDown(LEARNER, max(0.0, speed), COMMAND)
        target = self._sight.beside(own.lane, side) if side and self.time > self._changed + REFUSED else None
        if target:
            libsumo.vehicle.changeLane(LEARNER, self._lanes.lanes[target].number, 0.0)
        return target

    def _look(self) -> None:
        """Read where all vehicles are; those on their last edge get a new destination."""
        self._places_now: dict[str, Place] = {}
        for v in EVERYONE:
            lane = libsumo.vehicle.getLaneID(v)
            if lane:  # none: two others have collided, and SUMO puts one of them back later
                position, speed = libsumo.vehicle.getLanePosition(v), libsumo.vehicle.getSpeed(v)
                self._places_now[v] = Place(lane, position, speed)
                if v == LEARNER:
                    self._way.renew(lane)
                else:
                    self._destinations.renew(v, self._lanes.lanes[lane].edge)
        others = [place for v, place in self._places_now.items() if v != LEARNER]
        self._seen = self._sight.seen(self._places_now[LEARNER], others)

    def _mean_speed(self) -> float:
        return float(np.mean([place.speed for place in self._places_now.values()]))

    def _desired_velocity(self) -> float:
        v = np.array([place.speed for place in self._places_now.values()])
        best = self.target_speed * np.sqrt(v.size)
        return float(max(0.0, best - np.linalg.norm(v - self.target_speed)) / best)
