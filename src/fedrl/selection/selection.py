"""A selection looks at clients before it chooses among them: what it adds to federated averaging."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedrl.federation import Federation
from fedrl.local.learner import Learner
from fedrl.types import Cohort, Exchange, Metrics


class Selection(NamedTuple):
    choose: Callable  # (server, key) -> Cohort: who trains; `server.selection` is what `init` and `file` made
    init: Callable = lambda key: ()  # (key) -> what the server remembers
    before: tuple[Exchange, ...] = ()  # exchanges played before "train": reports of two-phase methods
    rides: Callable = (
        lambda local, client: ()
    )  # (local, client) -> report that rides in the upload of one-phase methods
    file: Callable[[Any, Any, Cohort], Any] = lambda state, reports, cohort: state  # -> what is remembered after
    seen: Callable[[Cohort, Any], Metrics] = lambda cohort, reports: {}  # -> metrics of "train", e.g. who was chosen


BuildSelection = Callable[[Federation, Learner], Selection]
