"""Who trains: a selection chooses, and may first look at the clients. One argument, `selection`, of every method."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.types import Client, Cohort, Exchange, Learner, Metrics

Choose = Callable[[Any, Key], Cohort]  # (server, key)


def _nothing(local: Any, client: Client) -> tuple:
    return ()


def _no_memory(key: Key) -> tuple:
    return ()


class Selection(NamedTuple):
    choose: Choose  # (server, key) -> Cohort: who trains; `server.selection` is what `init` and `record` made
    init: Callable = _no_memory  # (key) -> what the server remembers
    before: tuple[Exchange, ...] = ()  # exchanges played before "train": reports of two-phase methods
    tells: Callable[[Any], Any] = lambda state: ()  # (what is remembered) -> what those who train find in the message
    report: Callable = _nothing  # (local, client) -> report that rides in the upload of one-phase methods
    record: Callable[[Any, Any, Cohort], Any] = lambda state, reports, cohort: state  # -> what is remembered after
    metrics: Callable[[Cohort, Any], Metrics] = lambda cohort, reports: {}  # -> metrics of "train", e.g. who was chosen

    @property
    def reports(self) -> bool:
        """Whether clients tell something of themselves beside what they learnt."""
        return bool(self.before) or self.report is not _nothing


BuildSelection = Callable[[Federation, Learner], Selection]


def drawing(clients: BuildSelection, federation: Federation, learner: Learner) -> Choose:
    """The choice of a selection that neither looks at clients nor remembers them: for measurements and openings."""
    chooser = clients(federation, learner)
    if chooser.reports or chooser.init is not _no_memory:
        raise ValueError(
            "only clients that train are looked at before they are chosen, and here they do not; "
            "give everyone(), uniform(4) or weighted(4) of fedrl.selection.participation"
        )
    return chooser.choose
