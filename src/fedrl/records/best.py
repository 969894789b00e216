"""The best evaluation so far, by the mean return over seeds and clients, and when to stop for lack of a better one."""

from typing import NamedTuple

from fedrl.records.log import Row


class StopRule(NamedTuple):
    stop_at: float | None = None  # the return that is enough
    patience: int | None = None  # evaluations without a better one

    @property
    def given(self) -> bool:
        return self != (None, None)


class BestSoFar:
    """Sees every row of the log in turn; of equal returns the first is the best."""

    def __init__(self) -> None:
        self.value, self.round = float("-inf"), -1
        self.since = 0  # evaluations after the best

    def see(self, row: Row) -> None:
        if "return" not in row:
            return
        value = row["return"]
        if value is not None and value > self.value:  # None or NaN: not a number
            self.value, self.round, self.since = float(value), row["round"], 0
        else:
            self.since += 1

    def ends(self, rule: StopRule) -> bool:
        """Whether a run with this rule ends here."""
        enough = rule.stop_at is not None and self.value >= rule.stop_at
        return enough or (rule.patience is not None and self.since >= rule.patience)
