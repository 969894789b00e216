"""What is exported acts like the original: compared on drawn observations, and in episodes that it plays."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fedrl.environments import spaces
from fedrl.environments.spaces import NO_BOUND, Description
from fedrl.errors import FedRLError
from fedrl.export.program import Exported, Leaf, Program
from fedrl.policies.network import Layer
from fedrl.policies.saved import Act

OBSERVATIONS = 10_000
EPISODES = 10
TOLERANCE = 1e-6  # of numbers up to one; of larger ones, relative: single precision has no more
ROUNDINGS = 2  # a network that itself rounds more coarsely than that may differ by so many of its own rounding errors
WIDE = 3.0  # standard deviations, of entries without bounds


class ExportError(FedRLError, ValueError):
    """A policy cannot be exported so; the message is one sentence for the user."""


class NotPlayed(FedRLError):
    """No episodes can be played; the message says why."""


class Agreement(NamedTuple):
    """How two policies differ on the same observations."""

    observations: int
    parameters: float  # largest difference of logits or means, divided by their size where that is above one
    actions: float  # the same of a Box's actions, beyond what rounding to their dtype takes; 0 for choices
    different: int  # whole-number actions that differ
    ties: int  # those of them whose two best choices are equal within what is allowed
    rounding: float  # how far the original, in single precision, is from the same network in double precision

    @property
    def allowed(self) -> float:
        return max(TOLERANCE, ROUNDINGS * self.rounding)

    @property
    def holds(self) -> bool:
        return max(self.parameters, self.actions) <= self.allowed and self.different == self.ties


class Played(NamedTuple):
    """Episodes that the exported policy played, the original being asked at every step."""

    episodes: int
    steps: int
    mean_return: float
    agreement: Agreement


Play = Callable[
    [Callable[[Any], np.ndarray]], tuple[int, float]
]  # (act) -> steps, mean return of EPISODES, or NotPlayed


def compare(act: Act, exported: Exported, program: Program, observations: Any) -> Agreement:
    """Both policies on stacked observations."""
    actions, parameters = exported(observations)
    wanted, reference = act(observations), act.parameters(observations)
    found = Agreement(
        len(reference), _difference(parameters, reference), 0.0, 0, 0,
        _difference(reference, in_double_precision(act).parameters(observations)),
    )  # fmt: skip
    if not program.sizes:
        widths = program.action.rescaling.width.reshape(program.action.shape) if program.action.rescaling else 1.0
        return found._replace(actions=_difference(actions, *_unrounded(act, wanted, reference), widths))
    differs = (actions != wanted).reshape(len(reference), -1)
    parts = np.split(reference, np.cumsum(program.sizes)[:-1], axis=1)
    tied = np.stack([_tied(part, found.allowed) for part in parts], axis=1)
    return found._replace(different=int(differs.sum()), ties=int((differs & tied).sum()))


def in_double_precision(act: Act) -> Act:
    """The same policy, its network computed in float64."""
    layers = tuple(Layer(*(x.astype(np.float64) for x in layer)) for layer in act.actor.layers)
    return act._replace(actor=act.actor._replace(layers=layers))


def play(act: Act, exported: Exported, program: Program, episodes: Play) -> Played:
    seen: list[Agreement] = []

    def asked(observations: Any) -> np.ndarray:
        seen.append(compare(act, exported, program, observations))
        return exported(observations)[0]

    steps, mean_return = episodes(asked)
    return Played(EPISODES, steps, mean_return, joined(seen))


def joined(seen: list[Agreement]) -> Agreement:
    """That of all observations together."""
    each = np.array(seen)
    total, most = each.sum(axis=0), each.max(axis=0)
    return Agreement(int(total[0]), float(most[1]), float(most[2]), int(total[3]), int(total[4]), float(most[5]))


def draw(program: Program, count: int, rng: np.random.Generator) -> Any:
    """`count` stacked observations: uniform between bounds, else around the mean of what the filter has seen."""
    at, arrays = 0, []
    for leaf in program.leaves:
        arrays.append(_draw(program, leaf, at, count, rng))
        at += leaf.width
    return _nested(program.observations, iter(arrays))


def _draw(program: Program, leaf: Leaf, at: int, count: int, rng: np.random.Generator) -> np.ndarray:
    if leaf.sizes:
        drawn = rng.integers(0, leaf.sizes, (count, len(leaf.sizes))) + leaf.start
        return drawn.reshape(count, *leaf.shape).astype(leaf.dtype)
    assert leaf.low is not None
    assert leaf.high is not None
    both = (leaf.low > -NO_BOUND) & (leaf.high < NO_BOUND)
    low, high = (np.where(both, bound, 0.0) for bound in (leaf.low, leaf.high))
    centre, spread = np.zeros(leaf.width), np.ones(leaf.width)
    if program.mean is not None and program.scale is not None:
        centre, spread = (x[at : at + leaf.width].astype(np.float64) for x in (program.mean, program.scale))
    around = np.clip(centre + WIDE * spread * rng.standard_normal((count, leaf.width)), leaf.low, leaf.high)
    x = np.where(both, rng.uniform(low, high, (count, leaf.width)), around)
    x = np.rint(x) if np.issubdtype(np.dtype(leaf.dtype), np.integer) else x
    return x.reshape(count, *leaf.shape).astype(leaf.dtype)


def _nested(description: Description, arrays: Iterator[np.ndarray]) -> Any:
    """Arrays in the order of the leaves, as the space has them."""
    kind = description["type"]
    if kind == "dict":
        return {name: _nested(description["spaces"][name], arrays) for name in sorted(description["spaces"])}
    if kind == "tuple":
        return tuple(_nested(part, arrays) for part in description["spaces"])
    return next(arrays)


def _difference(some: np.ndarray, others: np.ndarray, rounding: Any = 0.0, widths: Any = 1.0) -> float:
    """The largest, of numbers up to one; of larger ones, and those of a space wider than that, relative.

    `some` may be rounded where `others` are not, by at most `rounding`.
    """
    a, b = (x.astype(np.float64) for x in (some, others))
    if a.shape != b.shape:
        return float("inf")
    off = np.abs(np.subtract(a, b, out=np.zeros_like(a), where=a != b))  # equal infinities are equal
    sizes = np.maximum(np.maximum(1.0, widths), np.abs(np.where(np.isfinite(b), b, 1.0)))
    return float(np.max(np.maximum(off - rounding, 0.0) / sizes, initial=0.0))


def _unrounded(act: Act, actions: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, Any]:
    """A Box's actions before they took its dtype, and half a step of that: a half may be rounded either way."""
    if actions.dtype == bool:
        return actions, 0.0
    exact = spaces.unflatten(act.actions | {"dtype": "float64"}, means)
    whole = np.issubdtype(actions.dtype, np.integer)
    return exact, 0.5 if whole else np.spacing(np.abs(actions)).astype(np.float64) / 2


def _tied(logits: np.ndarray, allowed: float) -> np.ndarray:
    """Whether the two largest of [B, n] may change places if each is off by what is allowed."""
    if logits.shape[1] < 2:
        return np.zeros(len(logits), bool)
    second, first = np.sort(logits.astype(np.float64), axis=1)[:, -2:].T
    tied: np.ndarray = first - second <= 2 * allowed * np.maximum(1.0, np.abs(first))
    return tied
