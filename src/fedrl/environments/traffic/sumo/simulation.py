"""The SUMO simulation of this process, guarded so that there is only one.

libsumo holds a single simulation per process. Starting a second one silently discards the first, and a forked child holds
a copy of its parent's; both are refused here.
"""

import os
import weakref
from pathlib import Path
from typing import NamedTuple

import libsumo


class _Running(NamedTuple):
    owner: "weakref.ref[Simulation]"  # weak, so that an abandoned simulation does not block the next one
    process: int


_running: _Running | None = None


class Simulation:
    """A network and its traffic. `begin` reloads everything, so that the seed alone determines what follows."""

    def __init__(self, network: Path, routes: Path, *, dt: float) -> None:
        self.dt = dt
        self._arguments = ["--net-file", str(network), "--route-files", str(routes), "--step-length", str(dt)]
        # waiting vehicles are never teleported, so that a vehicle leaves the road early only if it has collided
        self._arguments += ["--time-to-teleport", "-1", "--collision.check-junctions", "true"]
        self._arguments += ["--no-step-log", "true", "--no-warnings", "true", "--duration-log.disable", "true"]

    def begin(self, seed: int) -> None:
        global _running
        arguments = [*self._arguments, "--seed", str(seed)]
        _check_free_for(self)
        try:
            if _running is None:
                libsumo.start(["sumo", *arguments])
            else:
                libsumo.load(arguments)
        except Exception:
            _running = None
            raise
        _running = _Running(weakref.ref(self), os.getpid())

    def step(self) -> bool:
        """One step; True if vehicles have collided in it."""
        self.check()
        libsumo.simulation.step()
        return bool(libsumo.simulation.getStartingTeleportNumber() > 0)

    def check(self) -> None:
        """Raise unless libsumo holds this simulation."""
        if _running is None or _running.owner() is not self:
            raise RuntimeError("the simulation is not running: call reset() first, also after close()")
        if _running.process != os.getpid():
            raise RuntimeError(_FORKED)

    def close(self) -> None:
        """End the simulation if it is running, so that another can start."""
        global _running
        if _running is not None and _running.owner() is self:
            libsumo.close()
            _running = None


def _check_free_for(simulation: Simulation) -> None:
    if _running is None:
        if libsumo.isLoaded():
            raise RuntimeError(f"libsumo already runs a simulation in this process, not one of fedrl's; {_SECOND}")
    elif (owner := _running.owner()) is not None and _running.process != os.getpid():
        raise RuntimeError(_FORKED)
    elif owner is not None and owner is not simulation:
        raise RuntimeError(f"another traffic environment already runs in this process; {_SECOND}")


_SECOND = (
    "libsumo holds one simulation per process and would silently replace it. close() it first, or give this one a process "
    "of its own: fedrl.environments.subprocess_env.SubprocessEnv(make)"
)
_FORKED = (
    "this process was forked from one in which a traffic environment was running, and has only a copy of its simulation; "
    "close() the environment before forking or here, or start processes with multiprocessing's 'spawn'"
)
