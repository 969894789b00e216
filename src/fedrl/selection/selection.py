"""Which clients train: a selection chooses a cohort, and may ask clients for reports first. All methods take one."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Choose, Client, Cohort, Exchange, Learner, Metrics


class InitState(Protocol):
    """The selection's initial state, which the server keeps as `server.selection`."""

    def __call__(self, key: Key, /) -> Tree: ...


class Announce(Protocol):
    """The selection's part of the message to the clients that train, from its state."""

    def __call__(self, state: Any, /) -> Tree: ...


class Report(Protocol):
    """The report that a client that trains adds to its upload."""

    def __call__(self, local: Any, client: Client, /) -> Tree: ...


class Record(Protocol):
    """The selection's state after a stack of reports."""

    def __call__(self, state: Any, reports: Any, cohort: Cohort, /) -> Tree: ...


class SelectionMetrics(Protocol):
    """Metrics logged with "train", such as which clients were chosen."""

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
        """Whether clients send reports besides what they have learnt."""
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
