"""`fedrl federation check DIR/…`: everything that can be found wrong before anybody waits for it, one line each."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fedrl.organisations import check_server, check_site, folders
from fedrl.organisations.check_items import FAIL, OK, SKIPPED, WARN, Item
from fedrl.organisations.layout import ServerFiles

MARKS = {OK: ("ok  ", "green"), WARN: ("warn", "yellow"), FAIL: ("FAIL", "bold red"), SKIPPED: ("–   ", "dim")}


def check(folder: Path, as_json: bool = False) -> int:
    """Print one line for each item; returns 1 if anything failed, else 0."""
    lines = items(folder)
    if as_json:
        found = list(lines)
        passed = not any(item.result == FAIL for item in found)
        print(json.dumps({"ok": passed, "items": [item._asdict() for item in found]}, indent=2, ensure_ascii=False))
        return 0 if passed else 1
    console = Console(highlight=False, markup=False, emoji=False)
    results = Counter[str]()
    for item in lines:  # as soon as it is known: some take seconds
        results[item.result] += 1
        _show(console, item)
    console.print()
    console.print(_verdict(results))
    return 1 if results[FAIL] else 0


def items(folder: Path) -> Iterator[Item]:
    """The items of the server's or a site's folder, whichever it is."""
    files = folders.either(folder)
    return check_server.items(files) if isinstance(files, ServerFiles) else check_site.items(files)


def _show(console: Console, item: Item) -> None:
    """Never folded, so that paths and commands can be copied. Errors of a user's code may have several lines."""
    mark, colour = MARKS[item.result]
    dim, found = "dim" if item.result == SKIPPED else "", " ".join(item.found.split())
    console.print(Text.assemble((mark, colour), f"  {item.item}: ", (found, dim)), soft_wrap=True)
    for number, line in enumerate(item.do.splitlines()):
        console.print(Text(f"      {'->' if number == 0 else '  '} {line}"), soft_wrap=True)


def _verdict(results: Counter[str]) -> Text:
    warnings = f"{results[WARN]} warning{'s' * (results[WARN] != 1)}"
    if results[FAIL]:
        also = f", {warnings}" if results[WARN] else ""
        return Text(f"{results[FAIL]} of {results.total()} checks failed{also}", style="bold red")
    if results[WARN]:
        return Text(f"nothing failed, {warnings}", style="yellow")
    return Text("nothing failed", style="green")
