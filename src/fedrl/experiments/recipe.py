"""A recipe: a record of facts, a settings dataclass, and the functions that build, judge and draw.

    RECIPE = Recipe(
        paper="Wang et al. 2024, Table 2",       what it repeats
        shows="one line for `fedrl recipes`",
        minutes=1.0, seeds=16,                   at the default size
        config=Config,                           a frozen dataclass of plain numbers, a sentence per field
        build=build, claims=claims,              what is trained; what the paper says the result shows
        paper_settings={"rounds": 2000},         what --paper changes
        claim_texts=("a smaller beta ends higher",),   the claims in words
    )

How a recipe is found, by name, file, module or entry point, is in `fedrl.experiments.find`; the record does not know it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from fedrl.engines.engine import Engine
from fedrl.evaluation import Evaluation
from fedrl.experiments.errors import RecipeError as RecipeError
from fedrl.experiments.papers import Paper
from fedrl.federations.federation import Federation, Method
from fedrl.records import log
from fedrl.records.log import Row
from fedrl.training import Snapshot

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Arm(NamedTuple):
    """One curve of a recipe: the arguments of `train`."""

    method: Method
    federation: Federation
    rounds: int
    engine: Engine
    evaluation: Evaluation | None = None
    eval_every: int = 1
    snapshot: Snapshot | None = None
    stop_at: float | None = None
    patience: int | None = None
    keep_best: bool = False


class Outcome(NamedTuple):
    """The result of one arm: its log, its final returns [seeds, clients], and its folder, for snapshots."""

    rows: list[Row]
    returns: np.ndarray
    folder: Path = Path()

    def final(self) -> np.ndarray:
        """Final return of each seed, averaged over clients."""
        return np.asarray(self.returns.mean(axis=1))

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Evaluated rounds [n] and returns [n, seeds]."""
        return log.columns(self.rows, "return_by_seed")


class Claim(NamedTuple):
    text: str
    verdict: str  # "holds", "does not hold", "undecided"
    numbers: dict[str, Any]


Config = TypeVar("Config", bound="DataclassInstance")
Build = Callable[[Config], dict[str, Arm]]  # the arms to train, by name
Decide = Callable[[Config, dict[str, Outcome]], list[Claim]]  # the paper's claims about these arms, decided by numbers
Tell = Callable[[Config, dict[str, Outcome], list[Claim]], str]  # the result, as one would say it
Draw = Callable[[Config, dict[str, Outcome], Path], list[Path]]  # writes the figures to a folder, which it creates


class Recipe(NamedTuple, Generic[Config]):
    paper: str  # and which figure, table or theorem of it
    shows: str  # in one line
    minutes: float  # at the default size
    seeds: int
    config: type[Config]
    build: Build[Config]
    claims: Decide[Config]
    draw: Draw[Config] | None = None  # None: one figure with the learning curves of all arms
    paper_settings: Mapping[str, Any] = {}  # fields of `config` that differ at the paper's size
    paper_seeds: int | None = None  # None: as many as by default
    words: Tell[Config] | None = None  # a paragraph for the end of `fedrl run`
    claim_texts: tuple[str, ...] = ()  # what `claims` decides, in words that need no run
    cites: tuple[Paper, ...] = ()  # for `fedrl recipes NAME` and `fedrl cite`
