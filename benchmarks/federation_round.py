"""Seconds of a round between a server and two sites: what fedrl adds to Flower's own floor.

The floor is an app of Flower that does nothing, without TLS, with the programs that Flower starts by itself. Against it
stands `fedrl federation serve` and `join` with a tabular method on CliffWalking, TLS and keys on. They take turns.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from arguments import parse

try:
    import empty_app

    from fedrl.flower import command_line
    from fedrl.organisations import init, proxy
    from fedrl.records import log
except ModuleNotFoundError as error:
    sys.exit(f"skipped: {error.name} is missing: pip install 'fedrl[flower]'")

AIM = 0.5  # seconds
PATIENCE = 300.0
SITES = ("a", "b")
AGREED = {
    "max_episode_steps": 20, "episodes": 1, "sites": dict.fromkeys(SITES, 1),
    "spaces": {"observations": {"type": "discrete", "n": 48}, "actions": {"type": "discrete", "n": 4}},
    "method": {"name": "pavg", "eta": 0.1, "local_steps": 2, "horizon": 20},
    "rules": {"largest_norm": 1e9},  # gradients of a walk that falls again and again are long
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(home: Path, environment: dict[str, str], *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A program; it ends with the block, and all that it has started."""
    with (home / "programs.log").open("ab") as out:
        process = subprocess.Popen(words, env=environment, stdout=out, stderr=out, cwd=home, start_new_session=True)
    try:
        yield process
    finally:
        for number, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, None)):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(seconds)
                except subprocess.TimeoutExpired:
                    continue


def until(ready: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.2)


def floor(home: Path, rounds: int) -> list[float]:
    """Of Flower with the empty app."""
    port, out = free_port(), home / "seconds.json"
    own = {empty_app.ROUNDS: str(rounds), empty_app.OUT: str(out), "PYTHONPATH": str(Path(__file__).parent)}
    connection = {"address": f"127.0.0.1:{port}", "insecure": True}
    environment = command_line.environment(home) | own | command_line.write_connection(home, "there", connection)
    app = command_line.app(server="empty_app:server", client="empty_app:client", config={})
    folder = command_line.write_app(home / "app", app)
    link = ("--insecure", "--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation")
    with ExitStack() as stack:
        stack.enter_context(running(home, environment, command_line.program("flower-superlink"), *link))
        until(lambda: answers(port), "the SuperLink")
        for _ in SITES:
            words = ("--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(free_port()))
            stack.enter_context(running(home, environment, command_line.program("flower-supernode"), *words))
        command_line.FlowerLink((command_line.program("flwr"),), "there", environment).ask("run", str(folder), "there")
        until(out.exists, "the empty app")
    return [float(seconds) for seconds in json.loads(out.read_text())]


def ours(home: Path, rounds: int) -> list[float]:
    """Of fedrl; a round is sent with the evaluation of the one before, so it is all that happens between two rows."""
    address = f"127.0.0.1:{free_port()}"
    init.create(home / "cliffs", list(SITES), address)
    for name in ("server", *SITES):
        (home / "cliffs" / name / "federation.toml").write_text(tomli_w.dumps(AGREED | {"rounds": rounds + 1}))
    for name in SITES:
        path = home / "cliffs" / name / "site.toml"
        path.write_text(tomli_w.dumps(tomllib.loads(path.read_text()) | {"environment": "CliffWalking-v1"}))
    fedrl = (sys.executable, "-m", "fedrl.cli", "federation")
    with ExitStack() as stack:
        server = stack.enter_context(running(home, dict(os.environ), *fedrl, "serve", str(home / "cliffs/server")))
        for name in SITES:
            stack.enter_context(running(home, dict(os.environ), *fedrl, "join", str(home / "cliffs" / name)))
        until(lambda: server.poll() is not None, "fedrl")
    if server.returncode != 0:
        raise RuntimeError((home / "programs.log").read_text())
    seconds = [row["seconds"] for row in log.read(home / "cliffs/server/run/log.jsonl")]
    return np.diff(seconds)[1:].tolist()  # the first round compiles


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def evaluate(rounds: int, turns: int) -> dict[str, list[float]]:
    contestants = {"floor": floor, "fedrl": ours}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, play in contestants.items():
            with tempfile.TemporaryDirectory() as scratch:
                found[name] += play(Path(scratch), rounds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="of each contestant in each turn")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, rounds=1, turns=1)
    if not (shutil.which("nginx") or shutil.which("nginx", path=proxy.SBIN)):
        sys.exit("skipped: nginx is missing: apt-get install nginx-light")
    found = evaluate(args.rounds, args.turns)
    for name, seconds in found.items():
        error = np.std(seconds, ddof=1) / np.sqrt(len(seconds)) if len(seconds) > 1 else np.nan
        print(f"{name:6} {np.mean(seconds):5.2f} ± {error:.2f} s a round (median {np.median(seconds):.2f})")
    print(f"fedrl adds {np.mean(found['fedrl']) - np.mean(found['floor']):.2f} s (aim: less than {AIM})")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
