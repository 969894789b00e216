"""A selection looks at clients before it chooses among them: what it adds to federated averaging."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedrl.federation import Federation
from fedrl.local.learner import Learner
from fedrl.types import Client, Cohort, Exchange, Metrics


def _nothing(local: Any, client: Client) -> tuple:
    return ()


class Selection(NamedTuple):
    choose: Callable  # (server, key) -> Cohort: who trains; `server.selection` is what `init` and `file` made
    init: Callable = lambda key: ()  # (key) -> what the server remembers
    before: tuple[Exchange, ...] = ()  # exchanges played before "train": reports of two-phase methods
    tells: Callable[[Any], Any] = lambda state: ()  # (what is remembered) -> what those who train find in the message
    rides: Callable = _nothing  # (local, client) -> report that rides in the upload of one-phase methods
    file: Callable[[Any, Any, Cohort], Any] = lambda state, reports, cohort: state  # -> what is remembered after
    seen: Callable[[Cohort, Any], Metrics] = lambda cohort, reports: {}  # -> metrics of "train", e.g. who was chosen

    @property
    def reports(self) -> bool:
        """Whether clients tell something of themselves beside what they learnt."""
        return bool(self.before) or self.rides is not _nothing


BuildSelection = Callable[[Federation, Learner], Selection]
