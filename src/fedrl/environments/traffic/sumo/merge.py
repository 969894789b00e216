"""Merge: a highway that a ramp joins, with five of the vehicles on it driven by agents.

Flow's merge benchmark (Vinitsky et al. 2018) in the setting of `xu2024`, Section VII.
"""

from typing import Any, Literal

import libsumo
import numpy as np
from gymnasium.spaces import Box

from fedrl.environments.traffic.sumo import network, roads, vehicles
from fedrl.environments.traffic.sumo.parallel import Traffic
from fedrl.environments.traffic.sumo.simulation import Simulation
from fedrl.environments.traffic.sumo.vehicles import COMMAND, TOP_SPEED

DT = 0.5  # s
HIGHWAY_INFLOW, RAMP_INFLOW = 2000.0, 100.0  # vehicles per hour


class Merge(Traffic):
    """An agent is a slot, and drives the vehicle that holds it.

    After `warm_up` steps, when some 46 vehicles are on the road, the slots go to vehicles drawn at random from them; the
    slot of a vehicle that leaves goes to another at once. With a `penetration` slots are dealt out as in Flow instead: that
    share of the highway's inflow is for agents, and takes free slots first come, first served. An empty slot sees zeros,
    and its action does nothing.

    Seen are position / length of the vehicle's route and speed / 30: its own, and of the vehicles ahead and behind, at
    their places along its own route. Ahead is the next vehicle on that route; behind, the nearest that will drive where
    it is now. If there is none, ahead is (1, 1) and behind (0, 0), as in Flow.

    SUMO's intelligent driver model drives all other vehicles. All vehicles have `speed_mode` 9: SUMO enforces safe distances
    and the right of way, which here is the ramp's. `driver="sumo"` leaves the agents' vehicles to it too.
    """

    def __init__(
        self,
        driver: Literal["agents", "sumo"] = "agents",
        *,
        slots: int = 5,
        penetration: float | None = None,
        warm_up: int = 500,
        acceleration: float = 3.0,
        v_ref: float = 25.0,
        speed_dev: float = 0.1,
        speed_mode: int = 9,
        horizon: int = 1500,
    ) -> None:
        if driver not in ("agents", "sumo"):
            raise ValueError(f"driver={driver!r}, expected 'agents' or 'sumo'")
        if slots < 1 or warm_up < 0 or not acceleration > 0.0 or speed_dev < 0.0:
            got = f"{slots}, {warm_up}, {acceleration} and {speed_dev}"
            raise ValueError(f"expected slots >= 1, warm_up >= 0, acceleration > 0 and speed_dev >= 0, got {got}")
        if penetration is not None and not 0.0 < penetration < 1.0:
            raise ValueError(f"expected 0 < penetration < 1, or None for slots drawn at random, got {penetration}")
        road = network.build(roads.merge())
        highway, ramp = (network.lanes_along(road, edges) for edges in (roads.HIGHWAY, roads.RAMP))
        self._to_end = _to_end(highway, road.lengths) | _to_end(ramp, road.lengths)
        self._highway_lanes, self._ramp_lanes, self._shared_lane = highway[:-1], ramp[:-1], highway[-1]
        self._highway_length, self._ramp_length = self._to_end[highway[0]], self._to_end[ramp[0]]

        self._driver, self._fifo, self._warm_up = driver, penetration is not None, warm_up
        self._step_up, self._speed_mode = acceleration * DT, speed_mode
        routes = network.write_routes(_routes(penetration or 0.0, speed_dev))
        super().__init__(
            [f"slot_{i}" for i in range(slots)],
            Box(0.0, 1.0, (6,), np.float32),
            road,
            Simulation(road.file, routes, dt=DT),
            v_ref=v_ref,
            horizon=horizon,
        )

    def _driven_by_agents(self) -> list[str]:
        return self._slots if self._driver == "agents" else []

    def _begin(self, seed: int, random: np.random.Generator) -> None:
        self._random = random
        self._slots: list[str] = [""] * len(self.possible_agents)  # the id of the vehicle in each slot; "" if empty
        self._queue: list[str] = []
        self._simulation.begin(seed)
        for _ in range(self._warm_up):
            self._simulation.step()
            self._welcome()
        self._look()
        self._fill_slots()

    def _move(self, actions: list[float]) -> bool:
        if self._driver == "agents":
            for v, action in zip(self._slots, actions, strict=True):
                if v:
                    libsumo.vehicle.slowDown(v, max(0.0, self._v[v] + action * self._step_up), COMMAND)
        crash = self._simulation.step()
        if not crash:
            self._welcome()
            self._look()
            self._fill_slots()
        return crash

    def _welcome(self) -> None:
        """Set up the vehicles that have just entered the road."""
        for v in libsumo.simulation.getDepartedIDList():
            libsumo.vehicle.setSpeedMode(v, self._speed_mode)
            if self._fifo and v.startswith("agents"):
                self._queue.append(v)

    def _look(self) -> None:
        on = libsumo.lane.getLastStepVehicleIDs  # from the rear to the front
        self._highway = [v for lane in self._highway_lanes for v in on(lane)]
        self._ramp = [v for lane in self._ramp_lanes for v in on(lane)]
        self._shared = list(on(self._shared_lane))
        speed = libsumo.vehicle.getSpeed
        self._v = {v: speed(v) for row in (self._highway, self._ramp, self._shared) for v in row}

    def _fill_slots(self) -> None:
        self._slots = [v if v in self._v else "" for v in self._slots]
        free = [slot for slot, v in enumerate(self._slots) if not v]
        if not free:
            return
        if self._fifo:
            self._queue = [v for v in self._queue if v in self._v]
            vehicles, self._queue = self._queue[: len(free)], self._queue[len(free) :]
        else:
            others = [v for v in self._v if v not in self._slots]
            order = self._random.permutation(len(others))
            vehicles = [others[i] for i in order[: len(free)]]
        for slot, v in zip(free, vehicles, strict=False):
            self._slots[slot] = v

    def _observed(self) -> np.ndarray:
        observations = np.zeros((len(self._slots), 6), np.float32)
        for slot, v in enumerate(self._slots):
            if v:
                observations[slot] = self._observe_from(v)
        return observations

    def _observe_from(self, v: str) -> tuple[float, float, float, float, float, float]:
        length = self._ramp_length if v.startswith("ramp") else self._highway_length
        ahead, behind = self._neighbours(v)
        features = self._at(v, length) + (self._at(ahead, length) if ahead else (1.0, 1.0))
        return features + (self._at(behind, length) if behind and self._left(behind) <= length else (0.0, 0.0))

    def _neighbours(self, v: str) -> tuple[str, str]:
        """Ids of the vehicles ahead and behind, or "" where there is none."""
        if v in self._shared:
            i = self._shared.index(v)
            ahead = self._shared[i + 1 : i + 2]
            behind = self._shared[i - 1 : i] or sorted(self._highway[-1:] + self._ramp[-1:], key=self._left)
        else:
            row = (self._ramp if v.startswith("ramp") else self._highway) + self._shared[:1]
            i = row.index(v)
            ahead, behind = row[i + 1 : i + 2], row[i - 1 : i] if i else []
        return (ahead or [""])[0], (behind or [""])[0]

    def _left(self, v: str) -> float:
        """How far it is to the end of the road, in m."""
        return self._to_end[libsumo.vehicle.getLaneID(v)] - float(libsumo.vehicle.getLanePosition(v))

    def _at(self, v: str, length: float) -> tuple[float, float]:
        return 1.0 - self._left(v) / length, self._v[v] / TOP_SPEED

    def _mean_speed(self) -> float:
        return sum(self._v.values()) / len(self._v) if self._v else 0.0

    def _info(self, slot: int, mean_speed: float, crash: bool) -> dict[str, Any]:
        return {"mean_speed": mean_speed, "crash": crash, "vehicle": self._slots[slot]}


def _to_end(lanes: list[str], lengths: dict[str, float]) -> dict[str, float]:
    """From the start of each lane to the end of the last, in m."""
    return {lane: round(sum(lengths[after] for after in lanes[i:]), 6) for i, lane in enumerate(lanes)}


def _routes(penetration: float, speed_dev: float) -> str:
    """Vehicles are called after their inflow: highway.0, ramp.3, agents.7."""
    inflows = [
        ("highway", roads.HIGHWAY, HIGHWAY_INFLOW * (1.0 - penetration), 10.0),
        ("agents", roads.HIGHWAY, HIGHWAY_INFLOW * penetration, 10.0),
        ("ramp", roads.RAMP, RAMP_INFLOW, 7.5),
    ]
    flows = [
        f'<flow id="{name}" type="car" begin="1" end="1e9" vehsPerHour="{rate}" departLane="free" departSpeed="{speed}">'
        f'<route edges="{" ".join(edges)}"/></flow>'
        for name, edges, rate, speed in inflows
        if rate
    ]
    return f"<routes>{vehicles.kind('car', decel=4.5, speed_dev=speed_dev)}{''.join(flows)}</routes>"
