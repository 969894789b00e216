"""The rule for failing clients as options of `fedrl run` (--faults, --quorum, --deadline) or in Flower's configuration."""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedrl.experiments.recipe import RecipeError
from fedrl.faults import STOP, Faults, leave_out, stop

RULES = ("stop", "leave-out")


class FaultOptions(NamedTuple):
    rule: str | None = None  # of RULES
    quorum: str | None = None
    deadline: float | None = None

    def command_line(self) -> list[str]:
        options = (("--faults", self.rule), ("--quorum", self.quorum), ("--deadline", self.deadline))
        return [str(part) for option in options if option[1] is not None for part in option]

    def config(self) -> dict[str, Any]:
        """As a run configuration of Flower, which has no None."""
        return {"faults": self.rule or "", "quorum": self.quorum or "", "deadline": self.deadline or 0.0}

    def faults(self) -> Faults:
        """The rule itself; without options, the run stops at the first fault."""
        rule, quorum, deadline = self
        if rule is not None and rule not in RULES:
            near = difflib.get_close_matches(rule.replace("_", "-"), RULES, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else "choose one of them"
            raise RecipeError(f"--faults must be {' or '.join(RULES)}, got {rule!r}; {hint}")
        if rule != "leave-out":
            if quorum is not None:
                raise RecipeError(f"--quorum {quorum} is for --faults leave-out; add that or drop it")
            return stop(deadline=deadline) if deadline is not None else STOP
        if quorum is None:
            return leave_out(deadline=deadline)
        return leave_out(quorum=_number(quorum), deadline=deadline)


def from_config(config: Mapping[str, Any]) -> FaultOptions:
    """The options that `FaultOptions.config` wrote; none of them need be there."""
    rule, quorum = str(config.get("faults", "")), str(config.get("quorum", ""))
    return FaultOptions(rule or None, quorum or None, float(config.get("deadline", 0)) or None)


def _number(quorum: str) -> int | float:
    try:
        return float(quorum) if "." in quorum else int(quorum)
    except ValueError:
        raise RecipeError(
            f"--quorum must be a number of clients (3) or a share of the cohort (0.5), got {quorum!r}"
        ) from None
