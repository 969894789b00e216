"""One trip to the sites and back: who is waited for, and who is left out.

Sites that are in touch are waited for until the deadline; in the first trip, that is all of them. A site that was left out
must first say again who it is; once it has, it is asked to work and waited for, in the same trip if that goes on. Nobody
waits for a site that was refused, unless the quorum needs it: it may come back as it should be. Below the quorum the trip
goes on past its deadline, up to `patience`.
"""

import time
from collections import Counter
from typing import Any, NamedTuple

from fedrl.core.client import WorkResult
from fedrl.engines.client_results import ClientResults
from fedrl.engines.worker_pool import MOST_DEATHS
from fedrl.faults import ClientFault, FaultCode, Faults
from fedrl.organisations import answers
from fedrl.organisations.answers import Question
from fedrl.organisations.sites import Part, Sites

LOOK, LONGEST = 0.1, 1.0  # seconds between looks for answers, of which each is work for the SuperLink
PART = 0.02  # of the time that a trip has taken already: how long the next pause may be


class Work(NamedTuple):
    """What a trip is to bring: the work of one or two exchanges, by site."""

    parts: dict[str, list[Part]]
    asked: list[int]  # how many clients each exchange asks


class Trip:
    """The answers so far, by exchange and slot."""

    def __init__(self, sites: Sites, work: Work, waited: set[str], faults: Faults):
        self.sites, self.work, self.waited, self.faults = sites, work, waited & set(work.parts), faults
        self.results: list[ClientResults] = [{} for _ in work.asked]
        self.staleness: list[dict[int, int]] = [{} for _ in work.asked]  # by slot, of late answers
        self.done: set[str] = set()
        self.losses = Counter[str]()
        self.tokens: dict[str, str] = {}  # of the newest question to each site

    def play(self) -> None:
        """Until everybody who is waited for has answered, or time is up."""
        begun, rules = time.monotonic(), self.sites.agreement.rules
        while True:
            self.sites.look_around()
            self.sites.introduce()
            self._ask()
            for question, content in self.sites.pull():
                self._take(question, content)
            self.waited |= self.sites.known.keys() & self.work.parts.keys()
            missing = set(self.work.parts) - self.done
            elapsed = time.monotonic() - begun
            waiting = (self.waited & missing) - self.sites.refusals.keys() and elapsed < rules.deadline
            short = missing and not self._quorum() and elapsed < max(rules.patience, rules.deadline)
            if not waiting and not short:
                break
            self._say(short and not waiting, missing)
            left = min((end - elapsed for end in (rules.deadline, rules.patience) if end > elapsed), default=LONGEST)
            time.sleep(max(LOOK, min(PART * elapsed, LONGEST, left)))
        for site in missing:
            self._leave_out(site, elapsed)

    def _ask(self) -> None:
        busy = self.sites.busy()
        for site, parts in self.work.parts.items():
            if site in self.sites.known and site not in self.done and site not in busy:
                self.tokens[site] = self.sites.ask(site, parts)

    def _take(self, question: Question, content: Any) -> None:
        site, largest = question.site, self.sites.agreement.rules.largest_number
        if isinstance(content, ClientFault):
            results = answers.everyone_failed(question, content.code, str(content.error))
        elif content is None:  # lost on the way
            if question.token != self.tokens.get(site):
                return
            self.losses[site] += 1
            if self.losses[site] >= MOST_DEATHS:
                self._fail(
                    site, FaultCode.DIED, f"its work was lost {MOST_DEATHS} times in a row; its own log may say why"
                )
            return
        else:
            results = answers.of_work(content, question, largest)
        if question.token != self.tokens.get(site):
            return self._take_late(question, results)
        self._fill(site, results)
        self.sites.status.answered(site)

    def _take_late(self, question: Question, results: list[ClientResults]) -> None:
        """Results from an earlier round stand in for those of this one, in the same exchange; all others are dropped."""
        if not self.sites.takes_late or question.site not in self.work.parts or question.site in self.done:
            return
        for part in self.work.parts[question.site]:
            for item, came in zip(question.items, results, strict=True):
                if item.exchange == part.item.exchange and item.address[0] == "round":
                    by_client = {client: came[slot] for slot, client in zip(item.slots, item.clients, strict=True)}
                    age = int(part.item.address[1]) - int(item.address[1])
                    for slot, client in zip(part.item.slots, part.item.clients, strict=True):
                        if isinstance(by_client.get(client), WorkResult):
                            self.results[part.place][slot] = by_client[client]
                            self.staleness[part.place][slot] = age

    def _fill(self, site: str, results: list[ClientResults]) -> None:
        """A result takes the place of a late one of its client, a fault does not: one of them counts."""
        for part, came in zip(self.work.parts[site], results, strict=True):
            for slot, one in came.items():
                if isinstance(one, WorkResult) or slot not in self.results[part.place]:
                    self.results[part.place][slot] = one
                    self.staleness[part.place].pop(slot, None)
        self.done.add(site)

    def _fail(self, site: str, code: FaultCode, reason: str) -> None:
        question = Question(site, "", "", tuple(part.item for part in self.work.parts[site]))
        self._fill(site, answers.everyone_failed(question, code, reason))

    def _leave_out(self, site: str, elapsed: float) -> None:
        if refusal := self.sites.refusals.get(site):
            self._fail(site, FaultCode.REFUSED, refusal.why)
        elif site not in self.sites.here:
            self._fail(site, FaultCode.ABSENT, "its node is not connected")
        elif site in self.waited:
            self._fail(site, FaultCode.LATE, f"no answer within {elapsed:.0f} s")
        else:
            self._fail(site, FaultCode.LATE, "it has not answered since it was last left out")
        self.sites.forget(site)

    def _quorum(self) -> bool:
        """Whether every exchange has enough results without faults."""
        fine = [sum(isinstance(one, WorkResult) for one in results.values()) for results in self.results]
        return all(count >= self.faults.required(asked) for count, asked in zip(fine, self.work.asked, strict=True))

    def _say(self, waits: Any, missing: set[str]) -> None:
        text = f"fewer clients than the quorum have answered; waiting for {', '.join(sorted(missing))}" if waits else ""
        if text and (failed := self._failed()):
            text += f"; no good answer from {', '.join(failed)}"
        self.sites.status.waiting(text)

    def _failed(self) -> list[str]:
        """Sites that have answered, not all of it well."""
        return [
            site
            for site, parts in self.work.parts.items()
            if site in self.done
            and any(isinstance(self.results[p.place].get(slot), ClientFault) for p in parts for slot in p.item.slots)
        ]
