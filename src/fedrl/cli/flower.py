"""`fedrl run --engine flower`: submit the run to a Flower SuperLink, follow its log, and report how it ended.

The submitted app has no code: it names two modules of fedrl, which is installed on all machines.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from fedrl.experiments import find
from fedrl.experiments.fault_options import FaultOptions
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import RecipeError

PATIENCE = 120.0  # seconds for which a client may be without a node before the run ends
LOOPBACK = re.compile(r"(127(\.\d+){3}|localhost|\[::1\]):\d+")
OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
APP = {
    "project": {"name": "fedrl", "version": "1.0.0", "description": "A run of fedrl", "license": "Apache-2.0"},
    "tool": {
        "flwr": {
            "app": {
                "publisher": "fedrl",
                "components": {
                    "serverapp": "fedrl.flower.server:app",
                    "clientapp": "fedrl.flower.node:app",
                },
                "config": {"order": "", "out": "", "resume": False, "patience": PATIENCE} | FaultOptions().config(),
            }
        }
    },
}


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
        app = write_app(Path(scratch) / "fedrl")
        run = link.ask("run", str(app), link.name, "--run-config", str(settings))["run-id"]
        try:
            link.follow(run)
        except KeyboardInterrupt:
            link.ask("stop", run, link.name)
            raise
        (end,) = link.ask("list", link.name, "--run-id", run)["runs"]
    if end["status"] != "finished:completed":
        why = end["status-details"] or "its log, above, says why"
        raise RecipeError(f"Flower's run {run} ended as {end['status']} ({why}); fix that and go on with --resume")
    return (path / "finished.json").exists()


def write_app(folder: Path) -> Path:
    """The app as Flower expects it: a folder with a pyproject.toml. The same bytes for every run."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(tomli_w.dumps(APP))
    return folder


class _Link(NamedTuple):
    """Flower's own command line, connected to a SuperLink."""

    program: str
    name: str
    environment: dict[str, str]

    def ask(self, *words: str) -> dict[str, Any]:
        """The output of a command of Flower."""
        process = subprocess.run(
            [self.program, *words, "--format", "json"], env=self.environment, capture_output=True, text=True
        )
        start = process.stdout.find("{")
        output: dict[str, Any] = json.loads(process.stdout[start:]) if start >= 0 else {}
        if not output.get("success"):
            why = " ".join((output.get("error-message") or process.stderr or process.stdout).split())
            raise RecipeError(f"`flwr {words[0]}` at {self.name} failed: {why[-400:]}; is the SuperLink running there?")
        return output

    def follow(self, run: str) -> None:
        """Show the log of a run until it ends."""
        words = [self.program, "log", run, self.name, "--stream"]
        subprocess.run(words, env=self.environment, stdout=sys.stderr, check=True)


def _connection(address: str | None, home: Path) -> _Link:
    """host:port is a SuperLink on this machine, without TLS; any other word is a connection in Flower's configuration."""
    if not address:
        raise RecipeError("the engine flower needs the address of its SuperLink; add --address 127.0.0.1:8000")
    program = str(Path(sys.executable).with_name("flwr"))
    environment = os.environ | OFFLINE
    if ":" not in address:
        return _Link(program, address, environment)
    if not LOOPBACK.fullmatch(address):
        raise RecipeError(
            f"--address {address} is another machine, which needs TLS; name the connection in Flower's configuration "
            "(`flwr config list`) that has its address and root-certificates: --address NAME"
        )
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"here": {"address": address, "insecure": True}}}))
    return _Link(program, "here", environment | {"FLWR_HOME": str(home)})
