"""A federation of organisations on loopback: `fedrl federation serve` and `join` in processes of their own, TLS and keys on.

Each site's environment is a module in its own folder, which nobody else can import. Whatever is started here is ended by its
process id, with all that it has started.
"""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tomli_w
from support.machines import make
from support.superlink import free_port, until

import fedrl
from fedrl.engines.engine import Engine
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import sampled_return
from fedrl.organisations import agreement as agreements
from fedrl.organisations import init, parts, server_app
from fedrl.organisations.layout import ServerFiles, SiteFiles
from fedrl.records import log

FEDRL = [sys.executable, "-P", "-m", "fedrl.cli"]


class Served:
    """The folders of a federation, and the processes that run in them."""

    def __init__(self, home: Path, agreed: dict[str, Any], modules: dict[str, str], seed: int | None = None):
        """`modules` has the source of each site's environment module NAME_private, whose function is make_env."""
        self.home, self.processes = home / "wards", dict[str, subprocess.Popen]()
        self.address = f"127.0.0.1:{free_port()}"
        init.create(self.home, list(modules), self.address)
        self.server = ServerFiles(self.home / "server")
        self.sites = {name: SiteFiles(self.home / name) for name in modules}
        self.agree(agreed)
        for name, source in modules.items():
            (self.sites[name].home / f"{name}_private.py").write_text(source)
            own = {"environment": f"{name}_private:make_env", "clients": len(self.agreement.clients_of(name))}
            self.configure(name, **own, **({} if seed is None else {"shared_test_seed": seed}))

    def agree(self, agreed: dict[str, Any]) -> None:
        for files in (self.server, *self.sites.values()):
            files.agreement.write_text(tomli_w.dumps(agreed))

    def configure(self, name: str, **changes: Any) -> None:
        path = self.sites[name].settings
        path.write_text(tomli_w.dumps(tomllib.loads(path.read_text()) | changes))

    def start(self, name: str, *command: str) -> None:
        """`server`, or a site; with another `command` than fedrl's, whose last argument will be the folder."""
        words = command or (*FEDRL, "federation", "serve" if name == "server" else "join")
        with (self.home / f"{name}.log").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                [*words, str(self.home / name)], stdout=out, stderr=out, cwd=self.home.parent, start_new_session=True
            )

    def start_all(self) -> None:
        for name in ("server", *self.sites):
            self.start(name)

    def said(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    def wait(self, name: str, seconds: float) -> int:
        """Its exit code."""
        try:
            return self.processes[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} did not end within {seconds} s; it said:\n{self.said(name)}") from None

    def finish(self, seconds: float) -> None:
        """The server, then all sites, end by themselves and well."""
        for name in ("server", *self.sites):
            if name in self.processes:
                assert self.wait(name, seconds if name == "server" else 60) == 0, self.said(name)

    def rows(self) -> list[log.Row]:
        path = self.server.run / "log.jsonl"
        return log.read(path) if path.exists() else []

    def round(self) -> int:
        """The newest in the log; -1 before the first."""
        return max((row["round"] for row in self.rows()), default=-1)

    def await_round(self, round: int, seconds: float) -> None:
        until(lambda: self.round() >= round or self.processes["server"].poll() is not None, seconds)
        assert self.round() >= round, self.said("server")

    def left_out(self) -> list[tuple[int, str, str]]:
        """Round, exchange and reason."""
        return [(row["round"], one["exchange"], one["why"]) for row in self.rows() for one in row.get("left_out", [])]

    def status(self) -> dict[str, Any]:
        with suppress(FileNotFoundError, ValueError):  # it is being replaced
            return json.loads(self.server.status.read_text())
        return {}

    @property
    def agreement(self) -> agreements.Agreement:
        return agreements.read(self.server.agreement)

    def simulate(self, out: Path, engine: Engine | None = None, make: Callable[[str], Any] = make) -> Path:
        """The same agreement in one process, with the environments of all sites; `make` makes that of a site."""
        agreed = self.agreement
        federation = fedrl.gymnasium(
            lambda i: make(agreed.site_of(i)), clients=agreed.num_clients, max_episode_steps=agreed.max_episode_steps
        )
        fedrl.train(
            parts.of(agreed).method, federation, rounds=agreed.rounds, seed=agreed.seed, out=out,
            engine=engine or one_at_a_time(),
            evaluation=sampled_return(agreed.episodes), faults=server_app.rule(agreed), callback=lambda row, rounds: None,
        )  # fmt: skip
        return out

    def descendants(self, name: str) -> dict[int, str]:
        """The processes that `name` has started, and those that they did, with their command lines."""
        family, found = {self.processes[name].pid}, {}
        parents = {pid: parent for pid, parent, _ in _processes()}
        for pid, _, command in _processes():
            ancestor = pid
            while ancestor in parents and ancestor not in family:
                ancestor = parents[ancestor]
            if ancestor in family and pid not in family:
                found[pid] = command
        return found

    def kill(self, name: str, word: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the newest process of `name` with this word in its command line; False if there is none."""
        pids = [pid for pid, command in self.descendants(name).items() if word in command and "guard.py" not in command]
        for pid in pids[-1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(pids)

    def end(self, name: str, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _processes() -> list[tuple[int, int, str]]:
    """Number, parent and command line of all processes."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append((int(folder.name), parent, command))
    return sorted(found)


@contextmanager
def served(home: Path, agreed: dict[str, Any], modules: dict[str, str], seed: int | None = None) -> Iterator[Served]:
    one = Served(home, agreed, modules, seed)
    try:
        yield one
    finally:
        for name in reversed(list(one.processes)):
            one.end(name)
