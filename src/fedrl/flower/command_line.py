"""Flower's own command line, connected to a SuperLink, and the app that is submitted by it.

The submitted app has no code: it names two modules of fedrl, which is installed on all machines.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from fedrl.errors import FedRLError

OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


class FlowerCommandError(FedRLError, ValueError):
    """A command of Flower failed; the message says why."""


class FlowerLink(NamedTuple):
    """Flower's command line, connected to a SuperLink."""

    command: tuple[str, ...]  # that starts `flwr`
    name: str  # of the connection in Flower's configuration
    environment: dict[str, str]
    patience: float | None = None  # seconds that a command may take

    def ask(self, *words: str) -> dict[str, Any]:
        """The output of a command of Flower."""
        try:
            process = subprocess.run(
                [*self.command, *words, "--format", "json"],
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=self.patience,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise self._failed(words, f"no answer within {self.patience:.0f} s") from None
        start = process.stdout.find("{")
        output: dict[str, Any] = json.loads(process.stdout[start:]) if start >= 0 else {}
        if not output.get("success"):
            why = " ".join((output.get("error-message") or process.stderr or process.stdout).split())
            raise self._failed(words, why[-400:])
        return output

    def follow(self, run: str) -> None:
        """Show the log of a run until it ends."""
        subprocess.run(self.log_command(run), env=self.environment, stdout=sys.stderr, check=True)

    def log_command(self, run: str) -> list[str]:
        """Writes the log of a run to stdout, and ends with the run."""
        return [*self.command, "log", run, self.name, "--stream"]

    def _failed(self, words: tuple[str, ...], why: str) -> FlowerCommandError:
        what = " ".join(word for word in words[:2] if word.isalpha() and word != self.name)
        return FlowerCommandError(f"`flwr {what}` at {self.name} failed: {why}; is the SuperLink running there?")


def environment(home: Path) -> dict[str, str]:
    """Of a program of Flower whose own files are in `home`. It finds the others on the PATH, and reports nothing."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **OFFLINE, "PATH": beside, "FLWR_HOME": str(home), "PYTHONUNBUFFERED": "1"}


def program(name: str) -> str:
    """A program of Flower, which is installed where Python is."""
    return str(Path(sys.executable).with_name(name))


def app(*, server: str, client: str, config: dict[str, Any]) -> dict[str, Any]:
    """The project of an app. `server` and `client` are "module:object"; `config` has the settings of a run."""
    components = {"serverapp": server, "clientapp": client}
    return {
        "project": {"name": "fedrl", "version": "1.0.0", "description": "A run of fedrl", "license": "Apache-2.0"},
        "tool": {"flwr": {"app": {"publisher": "fedrl", "components": components, "config": config}}},
    }


def write_app(folder: Path, project: dict[str, Any]) -> Path:
    """The app as Flower expects it: a folder with a pyproject.toml. The same bytes for every run."""
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(tomli_w.dumps(project))
    return folder


def write_connection(home: Path, name: str, connection: dict[str, Any]) -> dict[str, str]:
    """Flower's configuration in the folder `home`, with one connection; what is to be added to the environment for it."""
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {name: connection}}))
    return {"FLWR_HOME": str(home)}
