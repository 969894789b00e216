"""How long a user waits: to import, to read --help, for the first sign of life, for the first round, and for it again.

    python benchmarks/start_up.py [--repetitions 3] [--json FILE]

The first round is that of README's Pendulums in worker processes, started twice with one cache of compiled programs: the
second start should need a third of the first one's time. CPU time is that of the command and its workers.
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
from pathlib import Path

from arguments import parse

COMMANDS = {
    "import fedrl": (["-c", "import fedrl"], 0.1),
    "fedrl --help": (["-m", "fedrl.cli", "--help"], 0.5),
    "fedrl recipes": (["-m", "fedrl.cli", "recipes"], 0.5),
}  # name -> arguments of Python, and the aim in CPU seconds above those of an empty program
PENDULUMS = """
import sys, gymnasium as gym, fedrl
from fedrl import algorithms, engines, learners, selection
from fedrl.engines import local_processes

clients, chosen, steps = map(int, sys.argv[1:])
federation = fedrl.gymnasium(lambda i: gym.make("Pendulum-v1", g=9 + 0.1 * i), clients=clients)
method = algorithms.fedavg(learners.ppo(steps=steps, num_envs=10), selection=selection.uniform(chosen))
print("train", file=sys.stderr, flush=True)
fedrl.train(method, federation, rounds=1)
local_processes.stop()
"""
FEEDBACK, SHARE = 5.0, 1 / 3  # aims: seconds, and of the first start's time


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(arguments: list[str]) -> float:
    before = cpu_of_children()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return cpu_of_children() - before


def pendulums(cache: Path, size: list[str]) -> dict[str, float]:
    """Seconds from `train` to its first line, seconds and CPU seconds from the start to the first round."""
    env, began, cpu = {**os.environ, "XDG_CACHE_HOME": str(cache)}, time.perf_counter(), cpu_of_children()
    with subprocess.Popen(
        [sys.executable, "-c", PENDULUMS, *size], env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stderr is not None
        called = feedback = first = 0.0
        for line in run.stderr:
            now = time.perf_counter() - began
            if line.startswith("train"):
                called = now
            elif not feedback:
                feedback = now - called
            if "round 1/1" in line:
                first = now
    if run.returncode or not first:
        raise RuntimeError(f"the Pendulums ended with {run.returncode} and no round")
    return {"feedback": feedback, "first round": first, "CPU": cpu_of_children() - cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, repetitions=1, clients=2, steps=40)
    results: dict[str, float] = {}
    empty = statistics.median(cpu_of(["-c", "pass"]) for _ in range(args.repetitions))
    for name, (arguments, aim) in COMMANDS.items():
        results[name] = statistics.median(cpu_of(arguments) for _ in range(args.repetitions)) - empty
        print(f"{name}: {results[name]:.2f} CPU s above an empty program; aim {aim:g}", flush=True)
    size = [str(args.clients), str(min(4, args.clients)), str(args.steps)]
    with tempfile.TemporaryDirectory() as scratch:
        starts = [pendulums(Path(scratch), size) for _ in range(2)]
    for number, start in zip(("first", "second"), starts, strict=True):
        told = ", ".join(f"{name} {value:.1f} s" for name, value in start.items())
        print(f"Pendulums, {number} start: {told}", flush=True)
    results |= {f"{name}, second / first": starts[1][name] / starts[0][name] for name in ("first round", "CPU")}
    print(f"first feedback within {FEEDBACK:g} s: {'yes' if starts[0]['feedback'] <= FEEDBACK else 'NO'}")
    print(f"second / first: {results['first round, second / first']:.2f} by the clock, "
          f"{results['CPU, second / first']:.2f} by CPU time; aim {SHARE:.2f}")  # fmt: skip
    if args.json:
        Path(args.json).write_text(json.dumps(results | {"starts": starts}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
