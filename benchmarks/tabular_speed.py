"""How fast is tabular FedSVRPG-M: fedrl against a hand-written numba loop and a plain NumPy one, same worlds, same work.

    python benchmarks/tabular_speed.py [--seeds 64] [--rounds 10] [--repetitions 3] [--json FILE]

The machine is shared and noisy, so the three take turns and the ratios are what counts; steps per second of CPU time (all
threads) is steadier than by the clock, and both are reported. Compilation is timed on its own.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # the compile time reported is the real one

import jax
import numpy as np
from arguments import parse

from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, random_mdp
from fedrl.evaluation import exact_return
from fedrl.federations.federation import Federation

AIMS = {"numba": 1 / 3, "NumPy": 100}  # how many times as fast as these


class Task(NamedTuple):
    seeds: int
    rounds: int
    clients: int = 20
    states: int = 5
    actions: int = 5
    local_steps: int = 32
    horizon: int = 50
    beta: float = 0.2
    eta: float = 0.05
    gamma: float = 0.9
    kappa: float = 0.5

    @property
    def env_steps(self) -> int:
        return self.seeds * self.rounds * self.clients * self.local_steps * self.horizon


class Worlds(NamedTuple):
    """The same for all contestants: cumulative kernels [seeds, clients, S, A, S], rewards, cumulative starts."""

    kernel: np.ndarray
    reward: np.ndarray
    start: np.ndarray


Contestant = Callable[[int], np.ndarray]  # repetition -> theta [seeds, S, A]


def with_fedrl(task: Task, over: str) -> tuple[Contestant, Worlds, Callable[[], np.ndarray]]:
    """The contestant, the worlds it plays in, and a function that compiles and says how long that took."""
    federation = Federation(
        finite.environment(task.states, task.actions, task.gamma),
        random_mdp.dense(task.states, task.actions, task.kappa),
        clients=task.clients,
    )
    method = fedsvrpg_m(beta=task.beta, eta=task.eta, local_steps=task.local_steps, horizon=task.horizon)
    algorithm = method(federation)
    play = fused(over)(algorithm, federation, exact_return()(algorithm, federation), task.rounds)
    starting, (first, _) = _seconds(lambda: jax.block_until_ready(play.init(list(range(task.seeds)))))
    env_params = jax.tree.map(np.asarray, first.clients.env_params)

    def run(repetition: int, rounds: int = task.rounds) -> np.ndarray:
        # Other rounds are other randomness: the worlds stay as they are.
        state, done, offset = first, 0, repetition * rounds
        while done < rounds:
            count = min(play.most, rounds - done)
            state, _ = play.advance(state, offset + done, count)
            done += count
        return np.asarray(jax.block_until_ready(state).server.theta)

    ready = Worlds(np.cumsum(env_params.kernel, -1), env_params.reward, np.cumsum(env_params.start, -1))
    return run, ready, lambda: starting + _seconds(lambda: run(0, 1))[0]


def with_numba(task: Task, env_params: Worlds) -> Contestant:
    from tabular_numba import play_seeds

    settings = (task.local_steps, task.horizon, task.beta, task.eta, task.gamma)
    env_params = Worlds(*(x[: task.seeds].astype(np.float64) for x in env_params))

    def run(repetition: int) -> np.ndarray:
        theta = np.zeros((task.seeds, task.states, task.actions))
        play_seeds(repetition * task.seeds, *env_params, task.rounds, *settings, theta)
        return theta

    return run


def with_numpy(task: Task, env_params: Worlds) -> Contestant:
    """As a paper's author would write it: loops over rounds, clients, steps and time; arrays for the tables."""

    def softmax(theta: np.ndarray) -> np.ndarray:
        e = np.exp(theta - theta.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def gradient(pi: np.ndarray, states: list[int], actions: list[int], to_go: np.ndarray) -> np.ndarray:
        g = np.zeros_like(pi)
        for s, a, r in zip(states, actions, to_go, strict=True):
            g[s] -= r * pi[s]
            g[s, a] += r
        return g

    def one(seed: int, rng: np.random.Generator) -> np.ndarray:
        discount = task.gamma ** np.arange(task.horizon)
        theta = theta_prev = u = np.zeros((task.states, task.actions))
        for _ in range(task.rounds):
            moved = []
            pi_prev = softmax(theta_prev)
            for c in range(task.clients):
                kernel, reward, start = (
                    env_params.kernel[seed, c],
                    env_params.reward[seed, c],
                    env_params.start[seed, c],
                )
                local = theta.copy()
                for _ in range(task.local_steps):
                    pi = softmax(local)
                    cumulative = pi.cumsum(axis=1)
                    states, actions, rewards = [], [], []
                    s = int(np.searchsorted(start[:-1], rng.random(), side="right"))
                    for _ in range(task.horizon):
                        a = int(np.searchsorted(cumulative[s, :-1], rng.random(), side="right"))
                        states.append(s)
                        actions.append(a)
                        rewards.append(reward[s, a])
                        s = int(np.searchsorted(kernel[s, a, :-1], rng.random(), side="right"))
                    to_go = np.cumsum((discount * rewards)[::-1])[::-1]
                    w = np.prod(pi_prev[states, actions] / pi[states, actions])
                    g, g_prev = gradient(pi, states, actions, to_go), gradient(pi_prev, states, actions, to_go)
                    local += task.eta * (task.beta * g + (1 - task.beta) * (u + g - w * g_prev))
                moved.append(local - theta)
            mean = np.mean(moved, axis=0)
            theta_prev, theta, u = theta, theta + mean, mean / (task.eta * task.local_steps)
        return theta

    return lambda repetition: np.stack([one(s, np.random.default_rng((repetition, s))) for s in range(task.seeds)])


def returns(theta: np.ndarray, env_params: Worlds, gamma: float) -> np.ndarray:
    """Exact discounted return of each seed's policy, averaged over its clients."""
    theta = theta.astype(np.float64)
    pi = np.exp(theta - theta.max(-1, keepdims=True))
    pi /= pi.sum(-1, keepdims=True)
    count = len(theta)
    kernel = np.diff(env_params.kernel[:count].astype(np.float64), axis=-1, prepend=0.0)
    start = np.diff(env_params.start[:count].astype(np.float64), axis=-1, prepend=0.0)
    chain = np.einsum("nsa,ncsat->ncst", pi, kernel)
    reward = np.einsum("nsa,ncsa->ncs", pi, env_params.reward[:count].astype(np.float64))
    v = np.linalg.solve(np.eye(theta.shape[1]) - gamma * chain, reward[..., None])[..., 0]
    return np.einsum("ncs,ncs->nc", start, v).mean(axis=1)


def _seconds(call: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """Seconds by the clock and of CPU time, and the result."""
    began = np.array([time.perf_counter(), time.process_time()])
    result = call()
    return np.array([time.perf_counter(), time.process_time()]) - began, result


def evaluate(task: Task, numpy_seeds: int, map_seeds: int, repetitions: int) -> dict[str, Any]:
    few, single = task._replace(seeds=numpy_seeds), task._replace(seeds=map_seeds)
    fast, env_params, compile_fast = with_fedrl(task, "vmap")
    exact, _, compile_exact = with_fedrl(single, "map")
    contestants = {
        "fedrl vmap": (task, fast),
        "fedrl map": (single, exact),
        "NumPy": (few, with_numpy(few, env_params)),
    }
    compiling = {"fedrl vmap": compile_fast(), "fedrl map": compile_exact()}
    if find_spec("numba"):
        contestants["numba"] = task, with_numba(task, env_params)
        compiling["numba"] = _seconds(lambda: with_numba(task._replace(rounds=1), env_params)(0))[0]
    else:
        print("skipped: numba is not installed; pip install 'fedrl[bench]'")
    rates: dict[str, list[np.ndarray]] = {name: [] for name in contestants}
    final: dict[str, list[np.ndarray]] = {name: [] for name in contestants}
    for repetition in range(repetitions):
        for name, (size, contestant) in contestants.items():
            took, theta = _seconds(lambda run=contestant, repetition=repetition: run(repetition))
            rates[name].append(size.env_steps / took)
            final[name].append(returns(theta, env_params, task.gamma))
    before = returns(np.zeros((task.seeds, task.states, task.actions)), env_params, task.gamma)
    return {
        "task": task._asdict(),
        "cores": os.cpu_count(),
        "steps per second": {name: np.median(rate, axis=0)[0] for name, rate in rates.items()},
        "steps per CPU second": {name: np.median(rate, axis=0)[1] for name, rate in rates.items()},
        "compile CPU seconds": {name: seconds[1] for name, seconds in compiling.items()},
        "ratio": {other: _ratio(rates["fedrl vmap"], rates[other]) for other in AIMS if other in contestants},
        "learnt": {name: _gain(np.array(final[name]), np.array(final["fedrl vmap"]), before) for name in contestants},
    }


def _ratio(ours: list[np.ndarray], theirs: list[np.ndarray]) -> dict[str, float]:
    """Median over the turns of how many times as fast we were."""
    clock, cpu = np.median(np.array(ours) / np.array(theirs), axis=0)
    return {"by the clock": float(clock), "by CPU time": float(cpu)}


def _gain(after: np.ndarray, reference: np.ndarray, before: np.ndarray) -> dict[str, float]:
    """Final exact returns [turns, seeds], what was gained, and the difference to fedrl on the same worlds."""
    count = after.shape[1]
    apart = after - reference[:, :count]
    error = float(apart.std(ddof=1) / apart.size**0.5) if apart.size > 1 else float("inf")
    return {
        "seeds": count,
        "return": float(after.mean()),
        "gain": float((after - before[:count]).mean()),
        "difference": float(apart.mean()),
        "standard error": error,
        "z": float(apart.mean() / error) if error else 0.0,
    }


def show(found: dict[str, Any]) -> None:
    cpu, compiling, learnt = found["steps per CPU second"], found["compile CPU seconds"], found["learnt"]
    print(
        f"{'':12}{'steps/s':>12}{'steps/CPU s':>13}{'compile s':>11}{'seeds':>7}{'return':>9}{'gain':>8}  minus fedrl (z)"
    )
    for name, rate in found["steps per second"].items():
        x = learnt[name]
        print(
            f"{name:12}{rate:12,.0f}{cpu[name]:13,.0f}{compiling.get(name, 0):11.2f}{x['seeds']:7}{x['return']:9.4f}"
            f"{x['gain']:8.4f}  {x['difference']:+.4f} ± {x['standard error']:.4f} ({x['z']:+.1f})"
        )
    for other, ratio in found["ratio"].items():
        aim = AIMS[other]
        clock, by_cpu = ratio["by the clock"], ratio["by CPU time"]
        print(f"fedrl vmap / {other}: {clock:.3g} by the clock, {by_cpu:.3g} by CPU time (aim {aim:.3g})")
    print(f"same work: {'yes' if all(abs(x['z']) < 4 for x in learnt.values()) else 'NO, the returns differ'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--numpy-seeds", type=int, default=2, help="NumPy plays only so many of the seeds")
    parser.add_argument("--map-seeds", type=int, default=4, help='fedrl over="map" plays only so many of the seeds')
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    args = parse(parser, seeds=1, rounds=1, clients=2, numpy_seeds=1, map_seeds=1, repetitions=2)
    task = Task(seeds=args.seeds, rounds=args.rounds, clients=args.clients)
    found = evaluate(task, min(args.numpy_seeds, args.seeds), min(args.map_seeds, args.seeds), args.repetitions)
    show(found)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2, default=float)


if __name__ == "__main__":
    main()
