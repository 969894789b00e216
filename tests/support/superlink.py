"""A Flower SuperLink and SuperNodes on the loopback address, for tests of runs that go over them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedrl.cli import flower
from fedrl.records import log
from fedrl.records.log import Row


class Federated:
    """A SuperLink and SuperNodes on the loopback address; whatever is started is ended by its process id."""

    def __init__(self, home: Path):
        self.home, self.processes = home, {}
        programs = str(Path(sys.executable).parent)
        self.environment = (
            os.environ
            | flower.OFFLINE
            | {
                "FLWR_HOME": str(home),
                "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
                "PATH": os.pathsep.join([programs, os.environ.get("PATH", "")]),
            }
        )
        self.address = f"127.0.0.1:{free_port()}"

    def start(self, name: str, *words: str) -> None:
        with (self.home / f"{name}.log").open("wb") as out:
            self.processes[name] = subprocess.Popen(words, env=self.environment, stdout=out, stderr=out, cwd=self.home)

    def link(self) -> None:
        host, port = self.address.split(":")
        words = ("--insecure", "--host", host, "--port", port, "--disable-runtime-dependency-installation")
        self.start("link", "flower-superlink", *words)
        until(lambda: answers(host, int(port)), 120)

    def node(self, name: str, clients: str) -> None:
        words = ("--insecure", "--superlink", self.address, "--port", str(free_port()))
        self.start(name, "flower-supernode", *words, "--node-config", f'clients="{clients}"')

    def runs(self) -> list[dict]:
        """As `flwr list` has them."""
        link = flower._connection(self.address, self.home)
        return link.ask("list", link.name)["runs"]

    def end(self, name: str) -> None:
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def superlink(home: Path) -> Iterator[Federated]:
    """A SuperLink without nodes; it ends, and all nodes that were started with it."""
    one = Federated(home)
    try:
        one.link()
        yield one
    finally:
        for name in reversed(list(one.processes)):
            one.end(name)


def same_rows(there: Path, here: Path) -> list[Row]:
    """The log of an arm, without times, after a look whether both folders of it hold the same bytes."""
    for file in ("policy.safetensors", "returns.safetensors"):
        assert (there / file).read_bytes() == (here / file).read_bytes()
    rows = [[row | {"seconds": 0} for row in log.read(arm / "log.jsonl")] for arm in (there, here)]
    assert json.dumps(rows[0]) == json.dumps(rows[1])
    return rows[0]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(host: str, port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((host, port)) == 0


def until(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.2)
