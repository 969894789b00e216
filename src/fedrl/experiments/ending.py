"""When the arms of a recipe end early, and whether best policies are kept: options of `fedrl run`, keys of `run.toml`."""

import math
from typing import Any, NamedTuple

from fedrl.experiments.recipe import Arm, RecipeError


class Ending(NamedTuple):
    """What `fedrl.train` calls by these names, for every arm of a run; None: as the arm itself has it."""

    stop_at: float | None = None
    patience: int | None = None
    keep_best: bool = False

    def checked(self) -> "Ending":
        """Itself, or a `RecipeError`."""
        if self.stop_at is not None and not math.isfinite(self.stop_at):
            raise RecipeError(f"stop_at expects a return, got {self.stop_at}; try --stop-at 475, or leave it out")
        if self.patience is not None and self.patience < 1:
            raise RecipeError(
                f"patience expects a whole number of at least 1, got {self.patience}; leave it out to play all rounds"
            )
        return self

    def replaced_by(self, other: "Ending") -> "Ending":
        """With what `other` gives in its place."""
        return self._replace(**other.plain())

    def of(self, arm: Arm) -> "Ending":
        """For one arm. One that may end early also keeps its best policy: its rounds are measured one by one anyway."""
        ending = Ending(arm.stop_at, arm.patience, arm.keep_best).replaced_by(self).checked()
        return ending._replace(keep_best=ending.keep_best or ending.early)

    @property
    def early(self) -> bool:
        """Whether a run may end before its last round."""
        return self[:2] != (None, None)

    def plain(self) -> dict[str, Any]:
        """What is given, for `run.toml`."""
        return {name: value for name, value in self._asdict().items() if value is not None and value is not False}

    def command_line(self) -> list[str]:
        words = [("--stop-at", self.stop_at), ("--patience", self.patience)]
        given = [str(word) for pair in words if pair[1] is not None for word in pair]
        return [*given, *(["--keep-best"] if self.keep_best else [])]
