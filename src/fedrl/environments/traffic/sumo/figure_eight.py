"""Figure Eight: fourteen vehicles on a closed road that crosses itself, every other one driven by an agent.

Flow's figureeight1 (Vinitsky et al. 2018) in the setting of `xu2024`, Section VII.
"""

from math import sqrt
from typing import Literal

import libsumo
import numpy as np
from gymnasium.spaces import Box

from fedrl.environments.traffic.sumo import network, roads, vehicles
from fedrl.environments.traffic.sumo.parallel import Traffic
from fedrl.environments.traffic.sumo.simulation import Simulation
from fedrl.environments.traffic.sumo.vehicles import COMMAND, LENGTH, TOP_SPEED, idm

VEHICLES = 14
OWN = np.arange(1, VEHICLES, 2)  # the vehicles that agents drive; everyone keeps to the order in which they began
AHEAD, BEHIND = (OWN + 1) % VEHICLES, OWN - 1
DT = 0.1  # s


class FigureEight(Traffic):
    """Agents drive vehicles 1, 3, …, 13. Each sees position / length of the way round and speed / 30 of its own vehicle, of
    the one ahead and of the one behind; with `relative`, gaps between bumpers / length in place of the others' positions.

    The rest are humans: Flow's intelligent driver model plus normal `noise`, except on the crossing, where SUMO drives
    on its own. `driver="humans"` lets them drive all fourteen; `driver="sumo"` leaves everyone to SUMO, the paper's
    "optimal baseline". The agents' actions then have no effect.

    An action times `acceleration` (m/s²) is what a vehicle attempts, and `speed_mode` what SUMO still enforces: by default
    safe distances (1), or everything (31) where it drives alone.
    """

    def __init__(
        self,
        driver: Literal["agents", "humans", "sumo"] = "agents",
        *,
        acceleration: float = 1.0,
        v_ref: float = 20.0,
        relative: bool = False,
        noise: float = 0.2,
        speed_dev: float = 0.1,
        speed_mode: int | None = None,
        horizon: int = 1500,
    ) -> None:
        if driver not in ("agents", "humans", "sumo"):
            raise ValueError(f"driver={driver!r}, expected 'agents', 'humans' or 'sumo'")
        if not acceleration > 0.0 or noise < 0.0 or speed_dev < 0.0:
            got = f"{acceleration}, {noise} and {speed_dev}"
            raise ValueError(f"expected acceleration > 0, noise >= 0 and speed_dev >= 0, got {got}")
        road = network.build(roads.figure_eight())
        lanes = network.lanes_along(road, [*roads.EIGHT, roads.EIGHT[0]])[:-1]
        lengths = {lane: road.lengths[lane] for lane in lanes}
        starts = np.cumsum([0.0, *lengths.values()]).round(6).tolist()
        self.length: float = starts[-1]
        self._start = dict(zip(lanes, starts, strict=False))
        self._crossing = {road.inside[pair] for pair in roads.CROSSING}
        self._places = [_place(i, self._start, self.length) for i in range(VEHICLES)]

        self._ids = [f"vehicle_{i}" for i in range(VEHICLES)]
        self._driven: list[int] = OWN.tolist() if driver == "agents" else []
        self._humans = [] if driver == "sumo" else [i for i in range(VEHICLES) if i not in self._driven]
        self._speed_mode = speed_mode if speed_mode is not None else 31 if driver == "sumo" else 1
        self._step_up, self._noise, self._relative = acceleration * DT, noise * sqrt(DT), relative

        rounds = 2 + int(horizon * DT * TOP_SPEED / self.length)  # as many as one can drive in an epoch, and more
        routes = network.write_routes(_routes(self._places, lengths, self._driven, speed_dev, rounds))
        low = np.array([0, 0, -1, 0, -1, 0] if relative else [0] * 6, np.float32)
        super().__init__(
            [self._ids[i] for i in OWN],
            Box(low, np.ones_like(low)),
            road,
            Simulation(road.file, routes, dt=DT),
            v_ref=v_ref,
            horizon=horizon,
        )

    def _driven_by_agents(self) -> list[str]:
        return [self._ids[i] for i in self._driven]

    def _begin(self, seed: int, random: np.random.Generator) -> None:
        self._simulation.begin(seed)
        self._simulation.step()  # puts all vehicles on the road; none has moved yet
        for v, (lane, position) in zip(self._ids, self._places, strict=True):
            if lane.startswith(":"):
                libsumo.vehicle.moveTo(v, lane, position)
            libsumo.vehicle.setSpeedMode(v, self._speed_mode)
        self._shocks = (self._noise * random.standard_normal((self.horizon, len(self._humans)))).tolist()
        self._look()

    def _move(self, actions: list[float]) -> bool:
        x, v, lanes, ids = self._x, self._v, self._lanes, self._ids
        slow_down = libsumo.vehicle.slowDown
        for i, action in zip(self._driven, actions, strict=False):
            slow_down(ids[i], max(0.0, v[i] + action * self._step_up), COMMAND)
        for i, shock in zip(self._humans, self._shocks[self.time], strict=True):
            if lanes[i] not in self._crossing:
                ahead = (i + 1) % VEHICLES
                gap = (x[ahead] - x[i]) % self.length - LENGTH
                slow_down(ids[i], max(0.0, v[i] + (idm(v[i], v[ahead], gap) + shock) * DT), COMMAND)
        crash = self._simulation.step()
        if not crash:
            self._look()
        return crash

    def _look(self) -> None:
        ids, start = self._ids, self._start
        self._lanes = list(map(libsumo.vehicle.getLaneID, ids))
        positions = map(libsumo.vehicle.getLanePosition, ids)
        self._x = [start[lane] + position for lane, position in zip(self._lanes, positions, strict=True)]
        self._v = list(map(libsumo.vehicle.getSpeed, ids))

    def _observed(self) -> np.ndarray:
        x, v = np.array(self._x) / self.length, np.array(self._v) / TOP_SPEED
        observations = np.empty((len(OWN), 6), np.float32)
        observations[:, 0], observations[:, 1], observations[:, 3], observations[:, 5] = (
            x[OWN],
            v[OWN],
            v[AHEAD],
            v[BEHIND],
        )
        observations[:, 2], observations[:, 4] = x[AHEAD], x[BEHIND]
        if self._relative:
            observations[:, 2] = (x[AHEAD] - x[OWN]) % 1.0 - LENGTH / self.length
            observations[:, 4] = (x[OWN] - x[BEHIND]) % 1.0 - LENGTH / self.length
        return observations

    def _mean_speed(self) -> float:
        return float(sum(self._v)) / VEHICLES


def _place(i: int, start: dict[str, float], length: float) -> tuple[str, float]:
    """Lane and position on it where vehicle i begins: all are spaced evenly, the first at the start of "bottom"."""
    x = round(i * length / VEHICLES, 6)
    lane = max((lane for lane in start if start[lane] <= x), key=start.__getitem__)
    return lane, round(x - start[lane], 6)


def _routes(
    places: list[tuple[str, float]],
    lengths: dict[str, float],
    agents: list[int],
    speed_dev: float,
    rounds: int,
) -> str:
    """Every vehicle drives round from its start. None can depart inside a junction: those depart before it and are moved."""
    lanes = list(lengths)
    lines = [
        vehicles.kind("human", decel=1.5, speed_dev=speed_dev),
        vehicles.kind("learning", decel=4.5, speed_dev=speed_dev),
    ]
    for i, (lane, position) in enumerate(places):
        if lane.startswith(":"):
            lane = lanes[lanes.index(lane) - 1]
            position = lengths[lane]
        first = roads.EIGHT.index(lane.removesuffix("_0"))
        way = " ".join(roads.EIGHT[first:] + roads.EIGHT[:first])
        lines.append(
            f'<vehicle id="vehicle_{i}" type="{"learning" if i in agents else "human"}" depart="0" departPos="{position}" '
            f'departSpeed="0"><route edges="{way}" repeat="{rounds}"/></vehicle>'
        )
    return f"<routes>{''.join(lines)}</routes>"
