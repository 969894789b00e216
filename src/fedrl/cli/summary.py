"""What `fedrl run` says before and after: the recipe and its size, then returns, claims, files and what to do next."""

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from fedrl.cli import output
from fedrl.cli.recipes import duration
from fedrl.experiments import find
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Claim, Outcome
from fedrl.records.rows import worst


def announce(console: Console, order: Order, path: Path) -> None:
    recipe = find.recipe(order.recipe)
    output.say(console, f"{order.name}: {recipe.shows}", "bold")
    at_default_size = order.config == recipe.config() and order.seeds == recipe.seeds
    time = f", about {duration(recipe.minutes)}" if at_default_size else ""
    output.say(console, f"{order.seeds} seeds from {order.seed} on{time}; files go to {path}\n", "dim")


def summarise(console: Console, order: Order, path: Path, outcomes: dict[str, Outcome], claims: list[Claim]) -> None:
    rows = [(arm, it["return"], it["se"], it["worst"]) for arm, it in finals(outcomes).items()]
    console.print()
    console.print(output.table(("arm", "final return", "± s.e.", "worst client"), rows))
    console.print()
    output.claims(console, claims, numbers=False)
    if tell := find.recipe(order.recipe).words:
        console.print(f"\n{tell(order.config, outcomes, claims)}", highlight=False, markup=False)
    quoted = shlex.quote(str(path))
    output.say(console, f"\nfiles    {path}")
    for figure in figures(path):
        output.say(console, f"figure   {figure}")
    output.say(console, f"\nNext:  fedrl verify {quoted}    the numbers behind each claim", "dim")
    output.say(console, f"       fedrl run {quoted} --seed 100    the same with other seeds", "dim")
    output.say(console, f"       fedrl compare {quoted} …    beside other runs", "dim")
    output.say(console, "       fedrl recipes    what else there is", "dim")


def finals(outcomes: dict[str, Outcome]) -> dict[str, dict[str, Any]]:
    """The end of every arm: mean over seeds and clients, standard error over seeds, and the worst client's return."""
    return {
        arm: {
            "return": float(it.final().mean()),
            "se": float(it.final().std(ddof=1) / len(it.final()) ** 0.5) if len(it.final()) > 1 else None,
            "worst": float(worst(it.returns)),
            "rounds": it.rows[-1]["round"],
            "env_steps": it.rows[-1]["env_steps"],
            "seconds": it.rows[-1]["seconds"],
        }
        for arm, it in outcomes.items()
    }


def figures(path: Path) -> list[Path]:
    """Each figure once: an SVG beside a PNG is the same one."""
    files = sorted(file for file in (path / "figures").glob("*") if file.suffix in (".png", ".svg", ".pdf"))
    return [file for file in files if file.suffix != ".svg" or file.with_suffix(".png") not in files]


def as_object(order: Order, path: Path, outcomes: dict[str, Outcome], claims: list[Claim]) -> dict[str, Any]:
    rows = [claim._asdict() for claim in claims]
    return {"run": path, **order.plain(), "arms": finals(outcomes), "claims": rows, "figures": figures(path)}
