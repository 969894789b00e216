"""`fedrl run --engine flower`: submit the run to a Flower SuperLink, follow its log, and report how it ended."""

import importlib.util
import json
import os
import re
import tempfile
from pathlib import Path

import tomli_w

from fedrl.experiments import find
from fedrl.experiments.fault_options import FaultOptions
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import RecipeError
from fedrl.flower import command_line
from fedrl.flower.command_line import OFFLINE as OFFLINE
from fedrl.flower.command_line import FlowerLink
from fedrl.organisations.processes import terminable

PATIENCE = 120.0  # seconds for which a client may be without a node before the run ends
LOOPBACK = re.compile(r"(127(\.\d+){3}|localhost|\[::1\]):\d+")
APP = command_line.app(
    server="fedrl.flower.server:app",
    client="fedrl.flower.node:app",
    config={"order": "", "out": "", "resume": False, "patience": PATIENCE} | FaultOptions().config(),
)


def refuse_own(order: Order) -> None:
    """Organisations rebuild a recipe from the code that they have installed, never from what they are sent."""
    if not find.has_name(order.recipe):
        raise RecipeError(
            f"{order.recipe} is not installed under a name, and the engine flower sends names, no code; install a package "
            f"with an entry point of the group {find.GROUP} on every machine and run that name (`fedrl new` writes one)"
        )


def require() -> None:
    if importlib.util.find_spec("flwr") is None:
        raise RecipeError("the engine flower needs Flower; install it with: pip install 'fedrl[flower]'")


def play(
    order: Order,
    path: Path,
    address: str | None,
    *,
    resume: bool,
    patience: float = PATIENCE,
    faults: FaultOptions = FaultOptions(),
) -> bool:
    """Submit the run and wait for it.

    Results are written to `path` on the SuperLink's machine; returns True if that is this machine.
    """
    with tempfile.TemporaryDirectory() as scratch:
        link = _connection(address, Path(scratch))
        config = {"order": json.dumps(order.plain()), "out": str(path), "resume": resume, "patience": patience}
        config |= faults.config()
        settings = Path(scratch) / "run.toml"
        settings.write_text(tomli_w.dumps(config))
        app = command_line.write_app(Path(scratch) / "fedrl", APP)
        run = link.ask("run", str(app), link.name, "--run-config", str(settings))["run-id"]
        try:
            with terminable():
                link.follow(run)
        except KeyboardInterrupt:  # also SIGTERM: the SuperLink would go on with the run
            link.ask("stop", run, link.name)
            raise
        (end,) = link.ask("list", link.name, "--run-id", run)["runs"]
    if end["status"] != "finished:completed":
        why = end["status-details"] or "its log, above, says why"
        raise RecipeError(f"Flower's run {run} ended as {end['status']} ({why}); fix that and go on with --resume")
    return (path / "finished.json").exists()


def _connection(address: str | None, home: Path) -> FlowerLink:
    """host:port is a SuperLink on this machine, without TLS; any other word is a connection in Flower's configuration."""
    if not address:
        raise RecipeError("the engine flower needs the address of its SuperLink; add --address 127.0.0.1:8000")
    program = (command_line.program("flwr"),)
    environment = os.environ | OFFLINE
    if ":" not in address:
        return FlowerLink(program, address, environment)
    if not LOOPBACK.fullmatch(address):
        raise RecipeError(
            f"--address {address} is another machine, which needs TLS; name the connection in Flower's configuration "
            "(`flwr config list`) that has its address and root-certificates: --address NAME"
        )
    connected = command_line.write_connection(home, "here", {"address": address, "insecure": True})
    return FlowerLink(program, "here", environment | connected)
