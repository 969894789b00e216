"""SmolLM2 with adapters on WebShop: what rolling out and learning cost above the bare network, and their peak memory.

    python benchmarks/agents_speed.py [--tasks 2] [--group 3] [--trials 2] [--episodes 16] [--json FILE]

Roll-outs (`episodes.play`) against `generate` on as many rows, with prompts and answers as long as the episodes' on average;
one GRPO update (`improve`) against a forward and backward pass over the same batch of tokens, through the same adapters.
Contestants take turns, and the best trial of each counts. Then a whole step, roll-out and update of `--episodes` episodes,
in a process of its own, with and without checkpointing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # threads that spin while they wait are many times slower on a busy machine

import numpy as np
import torch
from arguments import parse

from fedrl.keys import of_seed
from fedrl.llm.applications import Application, WebShop
from fedrl.llm.episodes import Acting, Episode, draw_noise, play
from fedrl.llm.grpo_update.update import Grpo, improve
from fedrl.llm.likelihood import Sample
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.memory import need
from fedrl.llm.models.model import Model, Theta, load_theta
from fedrl.llm.models.pretrained import Pretrained
from fedrl.llm.models.resolve import resolve
from fedrl.llm.optimization import adamw

STEPS = 5  # of an episode
GROUP = 8  # episodes of a task, in a whole step
ROLLING_OUT, LEARNING, MEMORY = 0.8, 0.8, 6.0  # wanted: shares of the bare network's tokens per second, and GB


class Cost(NamedTuple):
    seconds: float
    cpu: float


class Agent:
    """The model, the shop, and a theta to act with."""

    def __init__(self, step_limit: int, checkpointing: bool = False) -> None:
        self.spec = Pretrained(checkpointing=checkpointing, shows_commands=False)
        self.model: Model = open_model(self.spec)
        self.theta: Theta = self.spec.init(of_seed(0))
        self.app: Application = WebShop(products=200, held_out=8, public=8, step_limit=step_limit).build()
        self.optimizer = adamw(5e-4)
        load_theta(self.model, self.theta)

    def play(self, tasks: int, group: int) -> list[Episode]:
        noise = draw_noise(np.random.default_rng(0), tasks * group)
        some = self.app.pool[:tasks].tolist()
        return play(self.model, self.spec.formatter(), self.app.environment.make, some, group, noise, Acting())

    def improve(self, episodes: list[Episode], group: int, settings: Grpo) -> None:
        """Every other episode is called a good one, so that there is something to learn from each."""
        judged = [episode._replace(score=float(i % 2)) for i, episode in enumerate(episodes)]
        groups = [i // group for i in range(len(judged))]
        state = self.optimizer.init(self.theta)
        shuffle = np.random.default_rng(0)
        improve(self.model, self.theta, state, None, judged, groups, settings, self.optimizer, shuffle)

    def openings(self, tasks: int) -> int:
        """Tokens that a group has in common, of all groups."""
        formatter, total = self.spec.formatter(), 0
        with self.app.environment.make() as env:
            for task in self.app.pool[:tasks].tolist():
                seen, info = env.reset(seed=task, options={"task": task})
                total += len(formatter.first(seen, info["admissible_commands"]))
        return total


def cost(work: Callable[[], Any]) -> Cost:
    began, used = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - began, time.process_time() - used)


def in_turns(work: dict[str, Callable[[], Any]], trials: int) -> dict[str, Cost]:
    """The least of each, by the clock and by CPU time."""
    seen: dict[str, list[Cost]] = {name: [] for name in work}
    for _ in range(trials):
        for name, one in work.items():
            seen[name].append(cost(one))
    return {name: Cost(*(min(x) for x in zip(*costs, strict=True))) for name, costs in seen.items()}


def rolling_out(agent: Agent, tasks: int, group: int, trials: int) -> tuple[list[dict[str, Any]], list[Episode]]:
    episodes = agent.play(tasks, group)
    formatter, rows = agent.spec.formatter(), len(episodes)
    whole = sum(len(episode.tokens) for episode in episodes)
    said = sum(len(formatter.command(turn.answer)) for episode in episodes for turn in episode.turns)
    prompt, answer = round((whole - said) / rows), round(said / rows)
    words = [token for episode in episodes for token in episode.tokens]
    ids = torch.tensor((words * 2)[: rows * prompt]).reshape(rows, prompt)

    def generate() -> None:
        agent.model.net.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, use_cache=True,
            max_new_tokens=answer, min_new_tokens=answer,
        )  # fmt: skip

    costs = in_turns({"generate": generate, "play": lambda: agent.play(tasks, group)}, trials)
    shared = whole - (group - 1) * agent.openings(tasks)
    bare = throughput("bare generate", rows * (prompt + answer), costs["generate"])
    print(
        f"{rows} episodes: prompts of {prompt} tokens, answers of {answer}, {whole} in all, {shared} with openings once"
    )
    return [
        bare,
        throughput("episodes.play", whole, costs["play"], bare, ROLLING_OUT),
        throughput("  openings counted once", shared, costs["play"], bare),
    ], episodes


def learning(agent: Agent, episodes: list[Episode], group: int, trials: int) -> list[dict[str, Any]]:
    samples = [sample for episode in episodes for sample in episode.samples() if sample.decisions]
    ids, there = batch(samples)

    def bare() -> None:
        hidden = agent.model.net.base_model(input_ids=ids, attention_mask=there).last_hidden_state
        hidden.square().mean().backward()
        agent.model.net.zero_grad(set_to_none=True)

    def ours(beta: float) -> Callable[[], None]:
        settings = Grpo(reward="score", beta=beta, minibatch=len(samples))
        return lambda: agent.improve(episodes, group, settings)

    agent.improve(episodes[:group], group, Grpo(reward="score", beta=0.0))  # compiles the optimiser's step
    costs = in_turns({"bare": bare, "alone": ours(0.0), "held": ours(0.01)}, trials)
    tokens = int(there.sum())
    first = throughput("bare forward and backward", tokens, costs["bare"])
    return [
        first,
        throughput("improve", tokens, costs["alone"], first, LEARNING),
        throughput("  with the KL term, which reads all once more", tokens, costs["held"], first),
    ]


def batch(samples: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """What learning reads: each text up to its last decision, filled up to the longest."""
    texts = [sample.tokens[: max(d.position for d in sample.decisions)] for sample in samples]
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    there = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)], there[row, : len(text)] = torch.tensor(text), 1
    return ids, there


def throughput(
    name: str, tokens: int, spent: Cost, bare: dict[str, Any] | None = None, wanted: float | None = None
) -> dict:
    row = {"what": name, "tokens/s": tokens / spent.seconds, "tokens/CPU s": tokens / spent.cpu, "wanted": wanted}
    if bare is not None:
        row["share"] = row["tokens/s"] / bare["tokens/s"]
        row["CPU share"] = row["tokens/CPU s"] / bare["tokens/CPU s"]
    return row


def whole_step(episodes: int, step_limit: int, checkpointing: bool) -> dict[str, Any]:
    """In this process: the peak of its memory, and what was estimated for the network and what trains it."""
    agent, settings, played = Agent(step_limit, checkpointing), Grpo(reward="score"), []
    group = min(GROUP, episodes)

    def step() -> None:
        played.extend(agent.play(episodes // group, group))
        agent.improve(played, group, settings)

    spent = cost(step)
    ids, _ = batch([sample for episode in played for sample in episode.samples() if sample.decisions])
    plan = agent.spec._plan()._replace(tokens=min(ids.numel(), settings.at_once))
    wanted = need(resolve(agent.spec.name).config, plan)
    return {
        "what": "a whole step" + (", checkpointing" if checkpointing else ""),
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "estimated GB": (wanted.near + wanted.arrays) / 2**30,
        "tokens at once": plan.tokens,
        "seconds": spent.seconds,
        "CPU seconds": spent.cpu,
    }


def alone(episodes: int, step_limit: int, checkpointing: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--whole-step", "--episodes", str(episodes), "--steps", str(step_limit)]
    command += ["--checkpointing"] * checkpointing
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'':46}{'tokens/s':>10}{'per CPU s':>11}{'share':>7}{'CPU':>6}{'wanted':>8}")
    for row in rows:
        line = f"{row['what']:46}{row['tokens/s']:10.0f}{row['tokens/CPU s']:11.0f}"
        if "share" in row:
            line += f"{row['share']:7.2f}{row['CPU share']:6.2f}"
        if row["wanted"]:
            line += f"{row['wanted']:8.2f}  {verdict(row['CPU share'] >= row['wanted'])}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--group", type=int, default=3)
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=16, help=f"of a whole step, a multiple of {GROUP}")
    parser.add_argument("--steps", type=int, default=STEPS, help="of an episode, at most")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--whole-step", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--checkpointing", action="store_true", help=argparse.SUPPRESS)
    args = parse(parser, tasks=1, group=2, trials=1, episodes=2, steps=1)
    if args.whole_step:
        print(json.dumps(whole_step(args.episodes, args.steps, args.checkpointing)))
        return
    kinds = (False,) if args.smallest else (False, True)
    steps = [alone(args.episodes, args.steps, checkpointing) for checkpointing in kinds]
    for step in steps:
        print(
            f"{step['what']:46}{step['peak GB']:7.2f} GB at its peak, {MEMORY:.0f} wanted: "
            f"{verdict(step['peak GB'] < MEMORY)} ({step['tokens at once']} tokens at once; estimated "
            f"{step['estimated GB']:.2f} beside the libraries; {step['CPU seconds']:.0f} CPU s)",
            flush=True,
        )
    agent = Agent(args.steps)
    rows, episodes = rolling_out(agent, args.tasks, args.group, args.trials)
    show(rows)
    learnt = learning(agent, episodes, args.group, args.trials)
    show(learnt)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"rates": rows + learnt, "steps": steps}, file, indent=2)


if __name__ == "__main__":
    main()
