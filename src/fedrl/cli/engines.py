"""`fedrl run --engine`: the engine to use instead of the recipe's own."""

import difflib
import socket
from collections.abc import Callable
from typing import NamedTuple

from fedrl.engines.engine import Engine, Play
from fedrl.environments.protocol import Host
from fedrl.experiments.recipe import RecipeError
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation
from fedrl.types import Algorithm, Exchange

CONNECT_SECONDS = 10.0  # seconds a Ray cluster has to answer


class Choice(NamedTuple):
    """The options of the command line."""

    name: str | None = None
    address: str | None = None
    workers: int | None = None

    def options(self) -> list[str]:
        """As on a command line."""
        pairs = (("--engine", self.name), ("--address", self.address), ("--workers", self.workers))
        return [str(part) for option in pairs if option[1] is not None for part in option]


def engine(choice: Choice) -> Engine | None:
    """The chosen engine; None for the recipe's own."""
    name, address, workers = choice
    if name is not None and name not in ENGINES:
        near = difflib.get_close_matches(name, ENGINES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "choose another"
        raise RecipeError(f"there is no engine {name!r}; known are {', '.join(ENGINES)}: {hint}")
    if address is not None and name not in ("ray", "flower"):
        raise RecipeError(
            f"--address {address} is where a Ray cluster is; add --engine ray (or flower, for a SuperLink) or drop it"
        )
    if workers is not None and name not in ("processes", "ray"):
        raise RecipeError(
            f"--workers {workers} is for the engines processes and ray; add --engine processes or drop it"
        )
    return ENGINES[name](choice) if name else None


def _fused(choice: Choice) -> Engine:
    from fedrl.engines.fused import fused

    build = fused("vmap" if choice.name == "vmap" else "map")

    def checked(
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play:
        if isinstance(federation.environment, Host):
            raise RecipeError(
                f"--engine {choice.name} compiles everything, and this recipe's clients are simulators that cannot be; "
                "choose one_at_a_time, processes or ray"
            )
        return build(algorithm, federation, evaluation, eval_every, faults)

    return checked


def _one_at_a_time(choice: Choice) -> Engine:
    from fedrl.engines.one_at_a_time import one_at_a_time

    return one_at_a_time()


def _processes(choice: Choice) -> Engine:
    from fedrl.engines.local_processes import processes

    return processes(choice.workers)


def _ray(choice: Choice) -> Engine:
    from fedrl.engines.ray_cluster import ray

    try:
        build = ray(choice.address, choice.workers)
    except ImportError as error:
        raise RecipeError(str(error)) from None

    def reached(
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play:
        try:
            _check_listening(choice.address)
            return build(algorithm, federation, evaluation, eval_every, faults)
        except (ConnectionError, TimeoutError, socket.gaierror) as error:
            raise RecipeError(
                f"no Ray cluster answers at {choice.address} ({str(error).strip().splitlines()[0]}); start one with "
                "`ray start --head` and pass its --address, or leave that out for a Ray of this machine only"
            ) from None

    return reached


def _flower(choice: Choice) -> Engine:
    """Only for checks before the run is submitted; it is played by the SuperLink (`fedrl.cli.flower`)."""
    from fedrl.cli import flower

    flower.require()
    from fedrl.engines.one_at_a_time import one_at_a_time
    from fedrl.flower.server import refuse_lock_step

    build = one_at_a_time()

    def check(
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play:
        refuse_lock_step(algorithm)
        return build(algorithm, federation, evaluation, eval_every)  # a deadline is kept by the SuperLink

    return check


def _check_listening(address: str | None) -> None:
    """Fail at once if nothing listens at host:port; Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


ENGINES: dict[str, Callable[[Choice], Engine]] = {
    "fused": _fused,
    "vmap": _fused,
    "one_at_a_time": _one_at_a_time,
    "processes": _processes,
    "ray": _ray,
    "flower": _flower,
}
