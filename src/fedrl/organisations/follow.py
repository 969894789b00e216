"""What `serve` shows of the run, and how it learns that the run is over: from the files that `server_app` writes."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.console import Console

from fedrl.organisations import status_file
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.status import in_words_who, is_held
from fedrl.organisations.status_file import FINISHED, STOPPED, LeftOut, Status, StatusError
from fedrl.organisations.superlink import SuperLink
from fedrl.records import log, progress
from fedrl.records.formatting import say
from fedrl.records.log import Row

BEGINS = 180.0  # seconds in which the run must have begun
NOT_THERE = (status_file.NEVER_SEEN, status_file.OFFLINE)
ASK_FLOWER = 5.0  # seconds between questions to Flower about the run


class End(NamedTuple):
    """How the run ended."""

    finished: bool = False
    known: bool = True  # the run itself said so; otherwise its process died
    why: str = ""


class Follower:
    """Reads the log and the status of a run while it goes on."""

    def __init__(self, files: ServerFiles, agreement: Agreement, console: Console):
        self.files, self.agreement, self.console = files, agreement, console
        self.run, self.since, self.asked_at, self.seen_alive = "", 0.0, 0.0, False
        self.offset, self.states = 0, dict[str, tuple[str, str]]()
        self.last_left_out, self.reason = 0.0, ""
        self.why = dict[str, str]()  # each site was last left out
        self.rounds = -1  # the newest in the log
        self.invited = [site for site in agreement.sites if (files.site_keys / f"{site}.pub").is_file()]
        self.missing = list(self.invited)  # sites that are waited for

    def __enter__(self) -> "Follower":
        with ExitStack() as stack:
            self.show = stack.enter_context(progress.shown(self.console, [self.agreement.name], 1, self._waiting))
            self.stack = stack.pop_all()
        for _ in self._new_rows():  # of an earlier start
            pass
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _waiting(self) -> str:
        """Why there is no round to show yet."""
        if not self.run:
            return "starting Flower's SuperLink …"
        if self.reason:
            return f"waiting for the quorum, up to {self.agreement.rules.patience:g} s …"
        if self.missing:
            return f"waiting for {', '.join(self.missing)}, up to the deadline of {self.agreement.rules.deadline:g} s …"
        return "the sites compile (once) and make the first evaluation …"

    def begin(self, run: str) -> None:
        """A run was submitted."""
        self.run, self.since, self.asked_at, self.seen_alive = run, time.time(), time.monotonic(), False
        self.missing = list(self.invited)

    def look(self, link: SuperLink) -> End | None:
        """Show what is new; how the run ended, if it did."""
        for row in self._new_rows():
            self.show(self.agreement.name, row, self.agreement.rounds)
        status = self._status()
        if status is not None:
            self._show(status)
            if status.state in (FINISHED, STOPPED):
                return End(status.state == FINISHED, why=status.reason)
        alive = is_held(self.files.state)
        died, self.seen_alive = self.seen_alive and not alive, self.seen_alive or alive
        if died:
            say(self.console, "the process that trains died; starting it again from the last checkpoint", "yellow")
            return End(known=False)
        return None if alive else self._not_begun(link)

    def _not_begun(self, link: SuperLink) -> End | None:
        """The process that trains is not there yet; it may never come."""
        if time.monotonic() - self.asked_at < ASK_FLOWER:
            return None
        self.asked_at = time.monotonic()
        try:
            state = link.state(self.run)
        except (httpx.HTTPError, OSError) as error:  # the SuperLink died, or is busy: the next look will tell
            say(self.console, f"the SuperLink does not answer ({error})", "dim")
            return None
        if state.over or time.time() - self.since > BEGINS:
            say(self.console, f"the run did not begin ({state.why or 'no reason given'}); trying again", "yellow")
            return End(known=False)
        return None

    def _status(self) -> Status | None:
        """The status, if this run has written it."""
        try:
            status = status_file.read(self.files.status)
        except (FileNotFoundError, StatusError):
            return None
        return status if status.updated >= self.since else None

    def _show(self, status: Status) -> None:
        self.missing = [name for name in self.invited if name in status.sites and status.sites[name].state in NOT_THERE]
        for name, site in status.sites.items():
            state = (site.state, site.why if site.state == status_file.REFUSED else "")
            if site.state != status_file.NEVER_SEEN and self.states.get(name) != state:
                say(self.console, f"site {name}: {': '.join(filter(None, state))}")
            self.states[name] = state
        for entry in status.left_out:
            if entry.at > self.last_left_out:
                self.last_left_out = entry.at
                again = self.why.get(entry.site) == entry.why
                self.why[entry.site] = entry.why
                say(self.console, left_out_line(entry, again), "yellow")
        if status.reason != self.reason and status.state == status_file.WAITING:
            say(self.console, status.reason, "yellow")
        self.reason = status.reason

    def _new_rows(self) -> Iterator[Row]:
        """Rows that are whole. A run that goes on from a checkpoint writes some of them again."""
        path: Path = self.files.run / "log.jsonl"
        if not path.exists():
            return
        size = path.stat().st_size
        if size == self.offset:
            return
        rows = log.read(path)
        known, self.offset = self.rounds, size
        for row in rows:
            if row["round"] > known:
                self.rounds = row["round"]
                yield row


def left_out_line(entry: LeftOut, again: bool) -> str:
    what = "was left out again" if again else f"was left out: {entry.why}"
    return f"round {entry.round}, {entry.exchange}: {in_words_who(entry)} {what}"
