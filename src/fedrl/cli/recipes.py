"""`fedrl recipes`: the list, for which no recipe is imported."""

from importlib.metadata import EntryPoint
from typing import Any

from fedrl.cli import output
from fedrl.experiments import find


def list_all(as_json: bool) -> None:
    rows = [_own(name) for name in find.names()] + [_installed(point) for point in find.installed().values()]
    hidden = [f"{point.name} of {_package(point)} is hidden: the name is taken; rename it" for point in find.hidden()]
    if as_json:
        output.emit(rows)
        for text in hidden:
            output.say(output.screen(stderr=True), f"note: {text}", "yellow")
        return
    console = output.screen()
    cells = [(it["name"], it["paper"], it["shows"], duration(it["minutes"])) for it in rows]
    console.print(output.table(("recipe", "paper", "what it shows", "takes about"), cells, left=4))
    for text in hidden:
        output.say(console, f"note: {text}", "yellow")
    output.say(
        console, f"\nNext: fedrl run {rows[0]['name']}, or fedrl recipes {rows[0]['name']} for its settings", "dim"
    )


def _own(name: str) -> dict[str, Any]:
    entry = find.table()[name]
    return {"name": name, "paper": entry.paper, "shows": entry.shows, "minutes": entry.minutes}


def _installed(point: EntryPoint) -> dict[str, Any]:
    """Another package's recipe: what it shows is known only to its module, which is not imported for a list."""
    return {"name": point.name, "paper": _package(point), "shows": point.value, "minutes": None}


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else point.value


def duration(minutes: float | None) -> str:
    if minutes is None:
        return "–"
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
