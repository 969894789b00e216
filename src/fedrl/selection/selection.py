"""Which clients train: a selection chooses a cohort, and may ask clients first. Every method takes one as `selection`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Choose, Client, Cohort, Exchange, Learner, Metrics


class InitState(Protocol):
    """What the server remembers for a selection before the first round, as `server.selection`."""

    def __call__(self, key: Key, /) -> Tree: ...


class Announce(Protocol):
    """What the clients that train find in their message, from what the server remembers."""

    def __call__(self, state: Any, /) -> Tree: ...


class Report(Protocol):
    """What a client that trains reports about itself in its upload."""

    def __call__(self, local: Any, client: Client, /) -> Tree: ...


class Record(Protocol):
    """What the server remembers after the stack of reports."""

    def __call__(self, state: Any, reports: Any, cohort: Cohort, /) -> Tree: ...


class SelectionMetrics(Protocol):
    """What to log with "train", such as which clients were chosen."""

    def __call__(self, cohort: Cohort, reports: Any, /) -> Metrics: ...


def _no_report(local: Any, client: Client) -> Tree:
    return ()


def _no_state(key: Key) -> Tree:
    return ()


class Selection(NamedTuple):
    """How the clients that train are chosen. Two-phase selections add exchanges, one-phase ones add to the upload."""

    choose: Choose
    init: InitState = _no_state
    before: tuple[Exchange, ...] = ()  # exchanges played before "train": reports of two-phase selections
    tells: Announce = lambda state: ()
    report: Report = _no_report
    record: Record = lambda state, reports, cohort: state
    metrics: SelectionMetrics = lambda cohort, reports: {}

    @property
    def reports(self) -> bool:
        """Whether clients report anything about themselves besides what they learned."""
        return bool(self.before) or self.report is not _no_report


BuildSelection = Callable[[Federation, Learner], Selection]


def drawing(clients: BuildSelection, federation: Federation, learner: Learner) -> Choose:
    """`choose` of a selection that neither asks clients nor remembers them, for evaluations and openings."""
    chooser = clients(federation, learner)
    if chooser.reports or chooser.init is not _no_state:
        raise ValueError(
            "only clients that train can be asked before they are chosen, and here they do not train; "
            "give everyone(), uniform(4) or weighted(4) of fedrl.selection.participation"
        )
    return chooser.choose
