"""`fedrl run --faults`: what to do when a client fails."""

import difflib
from typing import Any, NamedTuple

from fedrl.experiments.recipe import RecipeError
from fedrl.faults import STOP, Faults, leave_out, stop

WORDS = ("stop", "leave-out")


class FaultChoice(NamedTuple):
    """What the command line asked for."""

    word: str | None = None
    quorum: str | None = None
    deadline: float | None = None

    def options(self) -> list[str]:
        """As they are written on a command line."""
        given = (("--faults", self.word), ("--quorum", self.quorum), ("--deadline", self.deadline))
        return [str(part) for option in given if option[1] is not None for part in option]

    def plain(self) -> dict[str, Any]:
        """As a run's configuration for Flower holds it."""
        return {"faults": self.word or "", "quorum": self.quorum or "", "deadline": self.deadline or 0.0}


def of_config(asked: Any) -> FaultChoice:
    """What `plain` made; a configuration without it stops at the first fault."""
    word, quorum, deadline = str(asked.get("faults", "")), str(asked.get("quorum", "")), float(asked.get("deadline", 0))
    return FaultChoice(word or None, quorum or None, deadline or None)


def rule(choice: FaultChoice) -> Faults:
    word, quorum, deadline = choice
    if word is not None and word not in WORDS:
        near = difflib.get_close_matches(word.replace("_", "-"), WORDS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "choose one of them"
        raise RecipeError(f"--faults wants {' or '.join(WORDS)}, got {word!r}; {hint}")
    if word != "leave-out":
        if quorum is not None:
            raise RecipeError(f"--quorum {quorum} is for --faults leave-out; add that or drop it")
        return stop(deadline=deadline) if deadline is not None else STOP
    if quorum is None:
        return leave_out(deadline=deadline)
    try:
        number = float(quorum) if "." in quorum else int(quorum)
    except ValueError:
        raise RecipeError(
            f"--quorum wants a number of clients (3) or a share of the cohort (0.5), got {quorum!r}"
        ) from None
    return leave_out(quorum=number, deadline=deadline)
