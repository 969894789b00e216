"""How long from starting the command to the first logged round, with a cold and with a warm compile cache.

    python benchmarks/first_round.py [--repetitions 3] [--json FILE]

The log is polled from outside, so that starting Python, importing and compiling all count. Row 0 is the measurement
before training; the first round is row 1.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from arguments import parse

AIM = 5.0  # seconds, warm

SNIPPET = """
import sys
from fedrl import train
from fedrl.recipes import quickstart
arm = next(iter(quickstart.build(quickstart.Config()).values()))
train(arm.method, arm.federation, rounds=arm.rounds, seeds=quickstart.RECIPE.seeds, out=sys.argv[1], engine=arm.engine)
"""


def command(out: Path) -> list[str]:
    """`fedrl run quickstart`; where there is no command line yet, its first arm by hand."""
    if find_spec("fedrl.cli"):
        return [sys.executable, "-m", "fedrl.cli", "run", "quickstart", "--out", str(out)]
    return [sys.executable, "-c", SNIPPET, str(out)]


def first_round(cache: Path, out: Path, patience: float) -> tuple[float, float]:
    """Seconds until some log.jsonl below `out` has its row of round 1, and of CPU time. The run is then stopped."""
    before = _cpu_of_children()
    seconds = _until_first_round(cache, out, patience)
    return seconds, _cpu_of_children() - before


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _until_first_round(cache: Path, out: Path, patience: float) -> float:
    began = time.perf_counter()
    with open(out.with_suffix(".txt"), "w+", encoding="utf-8") as said:
        env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        process = subprocess.Popen(command(out), env=env, stdout=said, stderr=subprocess.STDOUT)
        try:
            while time.perf_counter() - began < patience:
                if any(_rows(log) >= 2 for log in out.rglob("log.jsonl")):
                    return time.perf_counter() - began
                if process.poll() is not None:
                    said.seek(0)
                    raise RuntimeError(f"the run ended with {process.returncode} before its first round: {said.read()}")
                time.sleep(0.01)
            raise TimeoutError(f"no round after {patience:g} s; raise --patience")
        finally:
            process.kill()
            process.wait()


def _rows(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--patience", type=float, default=180.0, metavar="SECONDS")
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, repetitions=1, patience=500.0)
    found: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as scratch:
        for repetition in range(args.repetitions):
            cache = Path(scratch) / f"cache{repetition}"
            for kind, seconds in found.items():
                seconds.append(first_round(cache, Path(scratch) / f"{kind}{repetition}", args.patience))
                print(f"{kind}: {seconds[-1][0]:.1f} s, {seconds[-1][1]:.1f} s of CPU time", flush=True)
    middle = {kind: statistics.median(clock for clock, _ in seconds) for kind, seconds in found.items()}
    through = "fedrl.cli" if find_spec("fedrl.cli") else "fedrl.train"
    print(f"first round of quickstart ({through}): cold {middle['cold']:.1f} s, warm {middle['warm']:.1f} s", end="; ")
    print(f"within {AIM:g} s warm: {'yes' if middle['warm'] <= AIM else 'NO'}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"through": through, "seconds": found, "median": middle}, file, indent=2)


if __name__ == "__main__":
    main()
