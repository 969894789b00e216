"""`fedrl recipes NAME`: one recipe, with its paper, its settings and what it claims."""

import dataclasses
import shlex
from typing import Any

from rich.console import Console

from fedrl.cli import output
from fedrl.cli.recipes import duration
from fedrl.experiments import find, meanings
from fedrl.experiments.recipe import Recipe


def show(reference: str, as_json: bool) -> None:
    recipe = find.recipe(reference)
    settings = _settings(recipe)
    facts = {
        "name": reference,
        "paper": recipe.paper,
        "shows": recipe.shows,
        "minutes": recipe.minutes,
        "seeds": recipe.seeds,
        "paper_seeds": recipe.paper_seeds,
        "cites": [paper._asdict() for paper in recipe.cites],
        "settings": settings,
        "claims": recipe.claim_texts,
    }
    if as_json:
        output.emit(facts)
        return
    console = output.screen()
    output.say(console, f"{find.short(reference)}: {recipe.shows}", "bold")
    output.say(console, recipe.paper)
    for paper in recipe.cites:
        output.say(
            console, f"{paper.title} ({paper.authors.replace(' and ', ', ')}, {paper.year})\n{paper.link}", "dim"
        )
    _print_settings(console, recipe, settings)
    output.say(
        console,
        "\nClaims, decided by the numbers of a run" if recipe.claim_texts else "\nIt says what it claims after a run.",
    )
    for text in recipe.claim_texts:
        output.say(console, f"  {text}")
    _print_commands(console, reference, recipe, settings)


def _settings(recipe: Recipe[Any]) -> list[dict[str, Any]]:
    said, default = meanings.of_settings(recipe.config), recipe.config()
    return [
        {
            "name": field.name,
            "meaning": said.get(field.name, ""),
            "default": getattr(default, field.name),
            "paper": recipe.paper_settings.get(field.name),
        }
        for field in dataclasses.fields(recipe.config)
    ]


def _print_settings(console: Console, recipe: Recipe[Any], settings: list[dict[str, Any]]) -> None:
    rows = [(it["name"], _text(it["default"]), _text(it["paper"]), it["meaning"]) for it in settings]
    rows.append(("--seeds", _text(recipe.seeds), _text(recipe.paper_seeds), "trainings with other random numbers"))
    columns = ("setting", "default", "--paper", "meaning")
    shown = rows if any(row[2] for row in rows) else [(name, value, meaning) for name, value, _, meaning in rows]
    console.print()
    console.print(output.table(columns if shown is rows else (*columns[:2], columns[3]), shown, left=4))


def _print_commands(console: Console, reference: str, recipe: Recipe[Any], settings: list[dict[str, Any]]) -> None:
    command = f"fedrl run {shlex.quote(reference)}"
    output.say(console, f"\nRun it:  {command}    about {duration(recipe.minutes)} on two cores", "dim")
    if settings:
        one = settings[0]
        output.say(
            console, f"         {command} --set {one['name']}={_another(one['default'])}    with another setting", "dim"
        )
    if recipe.paper_settings or recipe.paper_seeds:
        output.say(console, f"         {command} --paper    at the paper's size", "dim")


def _another(default: Any) -> str:
    """An example that differs from the default; of text, only the recipe knows what there is."""
    if isinstance(default, bool):
        return _text(not default)
    if isinstance(default, tuple) and len(default) > 1:
        return _text(default[:-1])
    return _text(2 * default) if isinstance(default, int | float) and default else "…"


def _text(value: Any) -> str:
    """As `--set` takes it."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
