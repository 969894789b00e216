"""`fedrl agents label`, and how a language agent is brought back from a run's folder. The extra `llm` is imported late."""

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from fedrl import keys, trained
from fedrl.cli import output
from fedrl.cli.errors import STOPPED
from fedrl.experiments import orders, outcomes, restore
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.recipes.fedagent import _study
from fedrl.recipes.fedagent._config import Config
from fedrl.records import checkpoint
from fedrl.records.progress import PAUSE, clock_time
from fedrl.trees import Tree


class Agent(NamedTuple):
    """A language agent of a run, of its first seed."""

    arm: str
    study: _study.Study
    theta: Tree
    round: int  # after which it is
    rounds: int


def trained_agent(order: Order, path: Path, wanted: str | None, seed: int = 0, *, best: bool = False) -> Agent:
    """The agent that the arm `wanted` (None: the first) ended with, or its best; `seed` counts the run's from 0."""
    if not 0 <= seed < order.seeds:
        raise RecipeError(f"the run's seeds are counted from 0 to {order.seeds - 1}, got {seed}")
    name, arm, study = _arm_and_study(order, wanted)
    it = restore.arm_of(order, path, name, arm, best=best)
    server = jax.tree.map(lambda x: x[seed], it.state.server)
    return Agent(name, study, it.algorithm.answer(server), it.round, arm.rounds)


def newest_agent(order: Order, path: Path, wanted: str | None, *, before: bool) -> Agent:
    """That of the arm's newest checkpoint, whether it is finished or not, or the one `before` any training, theta_0."""
    name, arm, study = _arm_and_study(order, wanted)
    algorithm = arm.method(arm.federation)
    if before:
        server = algorithm.init(keys.of(jax.random.key(order.seed), "init"))
        return Agent(name, study, algorithm.answer(server), 0, arm.rounds)
    place = outcomes.arm_folder(path, name) / "checkpoint"
    found, damaged = checkpoint.newest(place, trained.like(algorithm, arm.federation, order.seeds))
    if found is None:
        why = f" ({damaged[0]})" if damaged else ""
        raise RecipeError(
            f"{path} has no whole checkpoint of {name!r} yet{why}; `fedrl run --resume --out {path}` goes on, and --before "
            "labels with the model as it was before training"
        )
    return Agent(name, study, algorithm.answer(_first(found.state.server)), found.round, arm.rounds)


def is_language(order: Order) -> bool:
    return isinstance(order.config, Config)


def _arm_and_study(order: Order, wanted: str | None) -> tuple[str, Arm, _study.Study]:
    study = _study.Study(order.config)  # says what to install where the extra is missing
    arms = restore.arms(order, wanted)
    if not arms:
        raise RecipeError(f"{order.recipe} trains no agents; pass a run of another recipe, such as fedagent/quickstart")
    return *next(iter(arms.items())), study


def _first(stack: Tree) -> Tree:
    return jax.tree.map(lambda x: x[0], stack)


def label(path: Path, *, arm: str | None, episodes: int, before: bool, out: Path | None) -> int:
    order = orders.from_toml(path)
    path = path.parent if path.is_file() else path
    if not is_language(order):
        raise RecipeError(
            f"labels are of language agents' tasks, and {order.recipe} has none; pass a run of fedagent/…"
        )
    agent = newest_agent(order, path, arm, before=before)
    from fedrl.llm import labels

    study, console = agent.study, output.screen()
    target = out or path / ("labels-before.json" if before else "labels.json")
    when = f"after round {agent.round} of {agent.rounds}" if agent.round else "before training"
    title = f"{order.recipe}, {agent.arm} {when}: the tasks of {study.config.application}"
    by = {"recipe": order.recipe, "run": str(path), "arm": agent.arm, "seed": order.seed}
    by |= {"round": agent.round, "rounds": agent.rounds, "model": study.config.model}
    try:
        with _progress(console, title, len(study.application.pool)) as callback:
            won = labels.label(
                study.spec, agent.theta, study.settings, target, by=by, episodes=episodes, acting=study.evaluating,
                callback=callback,
            )  # fmt: skip
    except KeyboardInterrupt:
        command = _command(path, arm, episodes, before, out)
        output.say(output.screen(stderr=True), f"Stopped; nothing is lost. Go on with: {command}")
        return STOPPED
    shares = np.array([won[int(task)] for task in study.application.pool])
    kinds = np.array(study.application.categories)
    rows = [
        (kind, int((kinds == kind).sum()), float(shares[kinds == kind].mean())) for kind in sorted(set(kinds.tolist()))
    ]
    console.print(output.table(("type", "tasks", "won"), [*rows, ("all", len(shares), float(shares.mean()))]))
    output.say(console, f"\nlabels   {target}")
    return 0


def _command(path: Path, arm: str | None, episodes: int, before: bool, out: Path | None) -> str:
    words = ["fedrl", "agents", "label", str(path), *(["--arm", arm] if arm else [])]
    words += ["--episodes", str(episodes)] if episodes > 1 else []
    return shlex.join([*words, *(["--before"] if before else []), *(["--out", str(out)] if out else [])])


@contextmanager
def _progress(console: Console, title: str, tasks: int) -> Iterator[Callable[[dict[int, float]], None]]:
    """The function to hand to `labels.label`: a bar on a terminal, a line now and then elsewhere."""
    news, said_at = ProgressText(tasks), -PAUSE

    def line(won: dict[int, float]) -> None:
        nonlocal said_at
        said = told(won)
        if len(won) == tasks or time.monotonic() - said_at >= PAUSE:
            said_at = time.monotonic()
            output.say(console, f"{len(won)} of {tasks} tasks labelled{said}")
            console.file.flush()

    def told(won: dict[int, float]) -> str:
        if news.began is None:
            output.say(console, title, "bold")
        return news(won)

    if not console.is_terminal:
        yield line
        return
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("tasks labelled{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=tasks)
        yield lambda won: bars.update(task, completed=len(won), description=told(won))


class ProgressText:
    """How many are won and how long it will take, judged by the tasks labelled since the first news."""

    def __init__(self, tasks: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.tasks, self.clock = tasks, clock
        self.began: tuple[float, int] | None = None

    def __call__(self, won: dict[int, float]) -> str:
        now = self.clock()
        since, before = self.began = self.began or (now, len(won))
        share = f", {sum(won.values()) / len(won):.0%} won" if won else ""
        done, left = len(won) - before, self.tasks - len(won)
        return share + (f", {clock_time(left * (now - since) / done)} left" if done and left else "")
