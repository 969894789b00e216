"""`fedrl recipes`."""

from fedrl.cli import output
from fedrl.experiments import find


def list_all(as_json: bool) -> None:
    recipes = [(name, find.recipe(name)) for name in find.names()]
    if as_json:
        facts = ("paper", "shows", "minutes", "seeds")
        output.emit([{"name": name} | {fact: getattr(it, fact) for fact in facts} for name, it in recipes])
        return
    rows = [(name, it.paper, it.shows, duration(it.minutes)) for name, it in recipes]
    console = output.screen()
    console.print(output.table(("recipe", "paper", "what it shows", "takes about"), rows, left=4))
    output.say(console, f"\nNext: fedrl run {recipes[0][0]}", "dim")


def duration(minutes: float) -> str:
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
