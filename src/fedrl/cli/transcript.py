"""`fedrl play --task`: one held-out task played by a run's language agent, to be read here and as a page."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedrl.cli import agents, output
from fedrl.experiments import orders, restore
from fedrl.experiments.recipe import RecipeError
from fedrl.records.tensors import write_atomically

if TYPE_CHECKING:
    from fedrl.llm.episodes import Episode

COLOURS = {"says and does": "bold cyan", "says": "cyan", "does": "bold cyan"}


def play(path: Path, task: int, out: Path | None, *, arm: str | None, seed: int, best: bool = False) -> None:
    path, arm = restore.place_of(path, arm)
    order = orders.from_toml(path)
    if not agents.is_language(order):
        raise RecipeError(
            f"--task is for runs of language agents, and {order.recipe} has none; --client I draws one of its clients"
        )
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise RecipeError(f"a transcript needs a name that ends in .html, got {out}; try {out}.html")
    agent = agents.trained_agent(order, path, arm, best=best)
    from fedrl.llm import transcript

    study, console = agent.study, output.screen()
    application, tasks = study.application, len(study.application.held_out)
    if not 0 <= task < tasks:
        raise RecipeError(f"there is no held-out task {task}; {order.recipe} has {tasks}, from 0 to {tasks - 1}")
    number = int(application.held_out[task])
    with console.status(f"playing task {task} …"):
        episode = transcript.play_task(
            study.spec, agent.theta, application.environment, number, seed=seed, acting=study.evaluating
        )
    facts = {
        "recipe": order.recipe,
        "arm": f"{agent.arm}, after {agent.round} rounds with seed {order.seed}",
        "model": study.config.model,
        "task": f"{task} of those held out, number {number} of {study.config.application}",
        "type": episode.task_type,
        "draws": f"seed {seed}, temperature {study.evaluating.temperature}",
    }
    title = f"Task {task}, {agent.arm}: {'won' if episode.won else 'not won'}"
    target = out or path / "figures" / f"task-{task}{'-best' if best else ''}.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, transcript.page(title, facts, episode).encode())
    print_episode(console, title, facts, episode)
    output.say(console, f"\npage     {target}")


def print_episode(console: Console, title: str, facts: dict[str, str], episode: "Episode") -> None:
    """The episode in the terminal."""
    from fedrl.llm.transcript import outcome, printable, turn_facts

    output.say(console, title, "bold")
    for name, fact in facts.items():
        _row(console, name, printable(fact))
    for number, turn in enumerate(episode.turns, 1):
        console.print()
        console.rule(Text(f"step {number}"), align="left", style="dim")
        console.print(Padding(Text(printable(turn.observation)), (0, 0, 1, 2), expand=False))
        for name, said in turn_facts(turn).items():
            _row(console, name, said, COLOURS.get(name, ""))
    console.print()
    output.say(console, outcome(episode), "green" if episode.won else "red")


def _row(console: Console, name: str, text: str, style: str = "") -> None:
    console.print(Text.assemble((f"{name:<15}", "dim"), (text, style)))
