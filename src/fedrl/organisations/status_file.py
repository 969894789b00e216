"""`status.json`: what the server's side of a federation is doing. The server app writes it, `status` shows it.

The functions are pure: a `Status` in, a `Status` out. `StatusFile` keeps the newest one and writes it.
"""

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.errors import FedRLError
from fedrl.records.tensors import write_atomically

KEPT = 100  # newest entries of `left_out`
OFTEN = 1.0  # seconds between two writes, at least
QUIET = 10.0  # seconds after which the file is written though nothing changed: it says that the server lives
PLAYING, WAITING, FINISHED, STOPPED = "playing", "waiting", "finished", "stopped"
ONLINE, OFFLINE, NEVER_SEEN, REFUSED = "online", "offline", "never seen", "refused"


class StatusError(FedRLError, ValueError):
    """The status cannot be shown; the message is one sentence."""


class SiteStatus(NamedTuple):
    clients: list[int]
    state: str = NEVER_SEEN
    since: float = 0.0  # of the state
    last_answer: float | None = None
    answered: int = 0
    left_out: int = 0
    why: str = ""  # it was last left out, refused or lost


class LeftOut(NamedTuple):
    """A site whose clients did not count in a trip."""

    round: int
    exchange: str
    site: str
    clients: list[int]
    why: str
    at: float


class Status(NamedTuple):
    """Times are seconds since 1970."""

    state: str
    reason: str
    run: int | str  # Flower's number
    round: int
    rounds: int
    exchange: str
    started: float
    updated: float
    sites: dict[str, SiteStatus]
    left_out: list[LeftOut]  # the newest last


def begun(
    run: int | str, round: int, rounds: int, sites: Mapping[str, Iterable[int]], now: float, before: Status | None
) -> Status:
    """The status of a run that begins, or goes on after `round` rounds; then what `before` has counted is kept."""
    known = before.sites if before and round > 0 else {}
    new = {name: SiteStatus(list(clients), since=now) for name, clients in sites.items()}
    kept = {
        name: site._replace(**{field: getattr(known[name], field) for field in ("last_answer", "answered", "left_out")})
        for name, site in new.items()
        if name in known
    }
    earlier = [entry for entry in before.left_out if entry.round <= round] if before and round > 0 else []
    return Status(PLAYING, "", run, round, rounds, "", now, now, new | kept, earlier)


def with_site(status: Status, name: str, **changes: Any) -> Status:
    return status._replace(sites=status.sites | {name: status.sites[name]._replace(**changes)})


def with_state(status: Status, name: str, state: str, why: str, now: float) -> Status:
    """The site `name` in `state`, in which it has been since before if it was in it already."""
    site = status.sites[name]
    return with_site(status, name, state=state, why=why or site.why, since=site.since if site.state == state else now)


def with_left_out(status: Status, entry: LeftOut) -> Status:
    site = status.sites[entry.site]
    why = site.why if site.state == REFUSED else entry.why  # why it was refused says more
    status = with_site(status, entry.site, left_out=site.left_out + 1, why=why)
    return status._replace(left_out=[*status.left_out, entry][-KEPT:])


def to_json(status: Status) -> bytes:
    sites = {name: site._asdict() for name, site in status.sites.items()}
    plain = status._asdict() | {"sites": sites, "left_out": [entry._asdict() for entry in status.left_out]}
    return (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode()


def read(path: Path) -> Status:
    """The status in a file; one that is not there is a `FileNotFoundError`."""
    data = path.read_bytes()
    try:
        plain = json.loads(data)
        sites = {str(name): SiteStatus(**site) for name, site in plain["sites"].items()}
        status = Status(**plain | {"sites": sites, "left_out": [LeftOut(**entry) for entry in plain["left_out"]]})
        return status._replace(started=float(plain["started"]), updated=float(plain["updated"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        what = "is empty" if not data.strip() else "is damaged or was written by another version of fedrl"
        raise StatusError(
            f"{path} {what}; a running server writes it anew within {QUIET:.0f} s, otherwise delete it"
        ) from None


class StatusFile:
    """Keeps the status and writes it to `path`, at most once per second. Call `save` whenever the server looks around."""

    def __init__(self, path: Path):
        self.path, self._saved_at, self._changed = path, -math.inf, False
        self.status = Status(WAITING, "the run has not begun", "", 0, 0, "", time.time(), time.time(), {}, [])

    def begin(self, run: int | str, round: int, rounds: int, sites: Mapping[str, Iterable[int]]) -> None:
        try:
            before = read(self.path)
        except (FileNotFoundError, StatusError):  # then nothing was counted before
            before = None
        self._set(begun(run, round, rounds, sites, time.time(), before), force=True)

    def exchange(self, round: int, name: str) -> None:
        self._set(self.status._replace(state=PLAYING, reason="", round=round, exchange=name))

    def waiting(self, reason: str) -> None:
        """An empty `reason` ends the waiting."""
        self._set(self.status._replace(state=WAITING if reason else PLAYING, reason=reason))

    def online(self, site: str) -> None:
        self._set(with_state(self.status, site, ONLINE, "", time.time()))

    def offline(self, site: str, why: str) -> None:
        """Said again, it changes nothing; a site that was never seen stays so."""
        before = self.status.sites[site]
        if before.state in (ONLINE, REFUSED):
            why += f"; it was refused before: {before.why}" if before.state == REFUSED else ""
            self._set(with_state(self.status, site, OFFLINE, why, time.time()))

    def refused(self, site: str, why: str) -> None:
        self._set(with_state(self.status, site, REFUSED, why, time.time()))

    def answered(self, site: str) -> None:
        count = self.status.sites[site].answered + 1
        self._set(with_site(self.status, site, answered=count, last_answer=time.time()))

    def left_out(self, round: int, exchange: str, site: str, clients: Iterable[int], why: str) -> None:
        self._set(with_left_out(self.status, LeftOut(round, exchange, site, list(clients), why, time.time())))

    def finish(self, state: str, reason: str = "") -> None:
        """`state` is FINISHED or STOPPED."""
        self._set(self.status._replace(state=state, reason=reason), force=True)

    def save(self, *, force: bool = False) -> None:
        """Write the file if it is due."""
        age = time.monotonic() - self._saved_at
        if not (force or age >= (OFTEN if self._changed else QUIET)):
            return
        self.status = self.status._replace(updated=time.time())
        write_atomically(self.path, to_json(self.status))
        self._saved_at, self._changed = time.monotonic(), False

    def _set(self, status: Status, *, force: bool = False) -> None:
        self._changed = self._changed or status != self.status
        self.status = status
        self.save(force=force)
