"""The sites at the other end of Flower's grid: who is there, what they were asked, what they answered.

A site that has just connected is asked who it is: its versions and its federation.toml must be the server's. Its node is
known by its key (`roster.py`). If it connects anew, the work it was doing is lost, and is asked for again.
"""

import json
import math
import secrets
import time
from typing import Any, NamedTuple

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedrl.engines.leaves import Unexpected
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode
from fedrl.flower.faults import UNUSABLE
from fedrl.organisations import answers, roster
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.answers import Asked, Question
from fedrl.organisations.fetching import Fetching
from fedrl.organisations.roster import Seen
from fedrl.organisations.status_file import StatusFile

LOOK_AROUND = 1.0  # seconds between looks who is there
GOODBYE, PAUSE = 15.0, 0.2  # seconds for all to hear that the run is over, and between looks whether they did
PAST = 5.0  # seconds after the end of a message's life, in which Flower would have said so
ASK_AGAIN = 60.0  # seconds until a site whose node could not say who it is is asked again
MOST_STALE = 20  # deadlines for which a late answer may still come, where it is taken
FORMAT = "fedrl.wire"  # of an array's bytes, as Flower records it


class Part(NamedTuple):
    """One exchange's work of one site."""

    place: int  # of the exchange in the trip
    item: Asked
    arrays: dict[str, tuple[Any, bytes]]  # by path: the array, and its bytes


def asked_words(parts: list[Part]) -> str:
    """What a question says besides arrays."""
    return json.dumps([part.item.plain() for part in parts])


class Pending(NamedTuple):
    """A question without an answer yet."""

    question: Question
    seen: Seen
    until: float  # the message lives, as `time.monotonic` counts


class Refusal(NamedTuple):
    """A site that is not asked to work: until it connects anew, or until a time."""

    seen: Seen
    why: str
    until: float


class Sites:
    """The sites of a federation, as the server sees them between trips."""

    def __init__(self, grid: Grid, agreement: Agreement, keys: dict[bytes, str], run: str, status: StatusFile):
        self.grid, self.agreement, self.keys, self.run, self.status = grid, agreement, keys, run, status
        self.about: dict[str, str] = {}  # versions and settings here; sites must have the same
        self.here: dict[str, Seen] = {}
        self.known: dict[str, Seen] = {}  # introduced, with this connection
        self.refusals: dict[str, Refusal] = {}
        self.pending: dict[str, Pending] = {}
        self.fetching = Fetching(grid)
        self.looked = -math.inf
        self.takes_late = agreement.rules.late != "drop"

    def look_around(self) -> None:
        """Who is online. The work of a node that has connected anew is lost."""
        if time.monotonic() - self.looked < LOOK_AROUND:
            return
        self.looked, self.here = time.monotonic(), roster.online(self.grid.get_nodes(), self.keys)
        for site in self.agreement.sites:
            if site not in self.here:
                self.status.offline(site, "its node is not connected")
            elif site in self.known:
                self.status.online(site)
        self.known = {site: seen for site, seen in self.known.items() if self.here.get(site) == seen}
        self.refusals = {
            site: it for site, it in self.refusals.items() if self.here.get(site) == it.seen and self.looked < it.until
        }
        self.pending = {name: it for name, it in self.pending.items() if self._may_answer(name, it)}
        self.status.save()

    def _may_answer(self, name: str, it: Pending) -> bool:
        if self.here.get(it.question.site, it.seen) != it.seen:
            return False
        return time.monotonic() < it.until + PAST or name in self.fetching.under_way

    def forget(self, site: str) -> None:
        """Ask who it is before it is asked to work again; work that it has not answered is dropped.

        A question who it is stays: if every trip asked anew, a site that is slower than the trips would never be back.
        """
        self.known.pop(site, None)
        if not self.takes_late:
            self.pending = {
                n: it for n, it in self.pending.items() if it.question.site != site or not it.question.items
            }

    def busy(self) -> set[str]:
        """Sites with a question that they have not answered."""
        return {it.question.site for it in self.pending.values()}

    def introduce(self) -> None:
        """Ask sites that have just connected, or were lost, who they are."""
        busy = self.busy()
        for site, seen in self.here.items():
            if site not in busy and site not in self.known and site not in self.refusals:
                question = Question(site, self.run, secrets.token_hex(8))
                words: dict[str, Any] = {"run": self.run, "token": question.token, "agreement": self.agreement.text}
                words |= {"site": site, "about": json.dumps(self.about)}  # so that the site can say what differs, too
                self.push(question, seen, MessageType.QUERY, RecordDict({"asked": ConfigRecord(words)}))

    def ask(self, site: str, parts: list[Part]) -> str:
        """Ask for work; returns the token of the question."""
        question = Question(site, self.run, secrets.token_hex(8), tuple(part.item for part in parts))
        records: dict[str, Any] = {}
        for number, part in enumerate(parts):
            records[str(number)] = ArrayRecord(
                {path: Array(str(x.dtype), tuple(x.shape), FORMAT, data) for path, (x, data) in part.arrays.items()}
            )
        records["asked"] = ConfigRecord(
            {
                "run": self.run,
                "token": question.token,
                "digest": self.agreement.digest,
                "items": asked_words(parts),
            }
        )
        self.push(question, self.here[site], MessageType.TRAIN, RecordDict(records))
        return question.token

    def push(self, question: Question, seen: Seen, kind: str, content: RecordDict) -> None:
        """A message lives as long as its answer is waited for."""
        deadline = self.agreement.rules.deadline
        lives = deadline * (MOST_STALE if self.takes_late and question.items else 1)
        message = Message(content, seen.node, kind, ttl=lives)
        name = next(iter(self.grid.push_messages([message])), None)
        if name is not None:
            self.pending[name] = Pending(question, seen, time.monotonic() + lives)
        else:  # Flower has just noticed that the node is gone: look again before asking again
            self.here.pop(question.site, None)
            self.known.pop(question.site, None)

    def pull(self) -> list[tuple[Question, RecordDict | ClientFault | None]]:
        """Answers to questions about work, None for one that was lost; introductions are dealt with here."""
        came: list[tuple[Question, RecordDict | ClientFault | None]] = []
        for name, found in self.fetching.look(list(self.pending)).items():
            question, seen, _ = self.pending.pop(name)
            if isinstance(found, Exception):
                self.grid.get_nodes()  # raises if it was Flower that failed, and not the answer
            content = self._content(question, seen, name, found)
            if question.items:
                came.append((question, content))
            elif isinstance(content, RecordDict):
                self._introduced(question, seen, content)
            elif content is not None:
                self._refuse(question.site, seen, str(content.error), time.monotonic() + ASK_AGAIN)
            else:  # not at once: whoever loses every question would be asked as fast as it can
                self.here.pop(question.site, None)
        return came

    def _content(
        self, question: Question, seen: Seen, name: str, found: Message | Exception
    ) -> RecordDict | ClientFault | None:
        """What a message brings; None if the question is to be asked again. Whatever came, nothing is raised."""
        try:
            if isinstance(found, Exception):
                raise found
            if found.has_error():
                return self._error(question, found.error.code)
            if (found.metadata.reply_to_message_id, found.metadata.src_node_id) != (name, seen.node):
                raise Unexpected("its answer is to another message, or in the name of another node")
            return found.content
        except Exception as error:  # whatever a stranger may have sent
            text = f"site {question.site}: {answers.reason(error, 'answer')}"
            return ClientFault(FaultCode.ANSWER, EnvironmentFailed(text))

    def _introduced(self, question: Question, seen: Seen, content: RecordDict) -> None:
        site = question.site
        try:
            refusal = self._mismatch(site, answers.check_belongs(content, question))
        except Exception as error:  # whatever a stranger may have sent
            refusal = answers.reason(error, "introduction")
        if refusal:
            self._refuse(site, seen, refusal if refusal.startswith(f"site {site}") else f"site {site}: {refusal}")
        else:
            self.known[site] = seen
            self.status.online(site)

    def _refuse(self, site: str, seen: Seen, why: str, until: float = math.inf) -> None:
        """Until it connects anew, or only `until` then if its node failed: the next time it may not."""
        self.refusals[site] = Refusal(seen, why, until)
        self.status.refused(site, why)

    def _mismatch(self, site: str, words: dict[str, Any]) -> str | None:
        """In words, why a site that says this of itself cannot take part."""
        if words.get("site") != site:
            return f"site {site}: it says that it is {answers.clipped(words.get('site'))}; its key is that of {site}"
        agreed = len(self.agreement.clients_of(site))
        if words.get("clients") != agreed:
            return f"site {site}: it says that it has {answers.clipped(words.get('clients'))} clients, {agreed} were agreed"
        there = json.loads(str(words["about"]))
        differing = [
            f"{name} {answers.clipped(there.get(name))} and not {own}"
            for name, own in self.about.items()
            if there.get(name) != own
        ]
        return f"site {site} has {', '.join(differing)}; install the same versions everywhere" if differing else None

    def _error(self, question: Question, code: int) -> ClientFault | None:
        """Flower's own word about a question; None if it is to be asked again."""
        if code in UNUSABLE:
            reason = f"site {question.site}: its node {UNUSABLE[code]}; its own log says more"
            return ClientFault(FaultCode.RAISED, EnvironmentFailed(reason))
        self.known.pop(question.site, None)
        return None

    def say_goodbye(self) -> None:
        """Tell every site that the run is over, and wait a little until they know."""
        self.pending, end = {}, time.monotonic() + GOODBYE
        for site, seen in list(self.here.items()):
            question = Question(site, self.run, secrets.token_hex(8))
            words: dict[str, Any] = {"run": self.run, "token": question.token, "over": True}
            self.push(question, seen, MessageType.QUERY, RecordDict({"asked": ConfigRecord(words)}))
        while True:
            for name in self.fetching.look(list(self.pending)):
                del self.pending[name]
            if not self.pending or time.monotonic() > end:
                return
            time.sleep(PAUSE)
