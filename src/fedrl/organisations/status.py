"""`fedrl federation status DIR/server`: who is there since when, the round, what is waited for, who was left out and why."""

import fcntl
import json
import shlex
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedrl.organisations import folders, status_file
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.status_file import LeftOut, Status
from fedrl.records.formatting import say

FRESH = 30.0  # seconds; a server that lives has written the file since
SHOWN = 10  # newest entries of who was left out
COLOURS = {
    "online": "green", "offline": "yellow", "refused": "red", "never seen": "dim",
    "playing": "green", "waiting": "yellow", "finished": "green", "stopped": "red",
}  # fmt: skip
WIDE = 120  # for files and pipes, which have no width


def show(folder: Path, as_json: bool = False) -> int:
    """Print the status of the server whose folder it is; returns the exit code."""
    files = folders.server(folder)
    try:
        status = status_file.read(files.status)
    except FileNotFoundError:
        return _show_nothing(files, as_json)
    running = is_running(files, status)
    if as_json:
        print(json.dumps(json.loads(status_file.to_json(status)) | {"running": running}, indent=2, ensure_ascii=False))
        return 0
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = console.width if console.is_terminal else WIDE
    now = time.time()
    _head(console, files, status, running, now)
    console.print(_sites(status, running, now))
    _left_out(console, status, now)
    return 0


def is_running(files: ServerFiles, status: Status) -> bool:
    """Whether a server writes this status: the folder is locked by one, and the file was written lately."""
    return is_held(files.home) and abs(time.time() - status.updated) <= FRESH


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of `folder`; a folder that never had a lock does not get one."""
    try:
        file = (folder / ".lock").open("rb")  # as FileLock locks it, but also in a folder that cannot be written
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def in_words(seconds: float) -> str:
    """How long, in the two largest units that say something: "12 s", "3 min", "2 h 5 min", "3 days"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")
    return "1 day" if whole < 2 * 86400 else f"{whole // 86400} days"


def clients_in_words(clients: Iterable[int]) -> str:
    """[0, 1, 2, 5] as "0-2, 5"."""
    runs: list[list[int]] = []
    for client in sorted(clients):
        if runs and client == runs[-1][-1] + 1:
            runs[-1][1:] = [client]
        else:
            runs.append([client])
    return ", ".join("-".join(map(str, run)) for run in runs)


def in_words_who(entry: LeftOut) -> str:
    return f"{entry.site} (client{'s' * (len(entry.clients) > 1)} {clients_in_words(entry.clients)})"


def _show_nothing(files: ServerFiles, as_json: bool) -> int:
    running = is_held(files.home)
    if as_json:
        print(json.dumps({"state": "never played", "running": running}, indent=2))
        return 0
    text = (
        "the server is starting and has no status yet; look again in a minute"
        if running
        else f"nothing has been played here yet; start it with: {start_with(files)}"
    )
    say(Console(highlight=False), text)
    return 0


def start_with(files: ServerFiles) -> str:
    return f"fedrl federation serve {shlex.quote(str(files.home))}"


def _head(console: Console, files: ServerFiles, status: Status, running: bool, now: float) -> None:
    where = f"round {status.round} of {status.rounds}" + (f", {status.exchange}" if status.exchange else "")
    colour = COLOURS.get(status.state, "") if running or status.state == "finished" else "red"
    console.print(
        Text.assemble((status.state, f"bold {colour}"), f"   {where}   begun {in_words(now - status.started)} ago")
    )
    if status.reason:
        say(console, status.reason if status.state == status_file.WAITING else f"because: {status.reason}")
    age = now - status.updated
    if running or status.state in ("finished", "stopped"):
        say(console, f"written {in_words(age)} ago", "dim")
    elif is_held(files.home):
        say(
            console,
            f"not written for {in_words(age)}, though the server is there: it is starting, or hangs; see {files.logs}",
            "yellow",
        )
    else:
        text = f"not running now: the server was stopped or killed (written {in_words(age)} ago)"
        say(console, f"{text}; start it with: {start_with(files)}", "red")
    console.print()


def _sites(status: Status, running: bool, now: float) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("site", "clients", "state", "for", "last answer", "answers", "left out", "why"):
        grid.add_column(name, justify="right" if name in ("answers", "left out") else "left", no_wrap=name != "why")
    for name, site in status.sites.items():
        last = "–" if site.last_answer is None else f"{in_words(now - site.last_answer)} ago"
        gone = not running and site.state in ("online", "offline")  # nobody has looked since the server ended
        state = Text(f"was {site.state}" if gone else site.state, style="dim" if gone else COLOURS.get(site.state, ""))
        cells = (clients_in_words(site.clients), state, "" if gone else in_words(now - site.since), last)
        grid.add_row(Text(name), *cells, str(site.answered), str(site.left_out), Text(site.why))
    return grid


def _left_out(console: Console, status: Status, now: float) -> None:
    newest = status.left_out[-SHOWN:][::-1]
    if not newest:
        say(console, "\nNobody was left out.", "dim")
        return
    total = sum(site.left_out for site in status.sites.values())
    say(console, f"\nLeft out, {len(newest)} of {total}, the newest first:" if total > len(newest) else "\nLeft out:")
    for entry in newest:
        who, when = in_words_who(entry), in_words(now - entry.at)
        say(console, f"  round {entry.round}, {entry.exchange}, {when} ago: {who}: {entry.why}")
