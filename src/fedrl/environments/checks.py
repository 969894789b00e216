"""Checks that an environment's results match its spaces and Gymnasium's interface; errors are one sentence."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedrl.environments.errors import EnvironmentFailed, check_finite
from fedrl.environments.spaces import Description, bounds

HUGE = 1e9  # larger rewards are probably a mistake; no critic learns from them unscaled
NEXT_MOVE = "fix the environment or exclude this client"

LARGEST = int(np.finfo(np.float64).max)  # a larger whole number does not fit a float
FLAGS = (bool, np.bool_)

Fault = Callable[[Sequence[Any] | np.ndarray], str | None]  # (observations) -> what is wrong with the first, or None


def observation_fault(description: Description) -> Fault:
    """A check for one space: whole numbers in range, arrays of the right shape, dicts with the right entries.

    Real environments exceed the bounds of a Box slightly, for instance when an episode ends. An entry may therefore lie
    outside by as much as its bounds are apart: 1.7 passes as an entry of Box(0, 1), 255 does not. An entry without
    a bound may lie anywhere. `check_finite` checks that numbers are finite.
    """
    kind = description["type"]
    if kind == "dict":
        return _entries({name: observation_fault(part) for name, part in description["spaces"].items()}, Mapping)
    if kind == "tuple":
        return _entries(dict(enumerate(map(observation_fault, description["spaces"]))), (tuple, list))
    if kind == "box":
        low, high = (bound.reshape(description["shape"]) for bound in bounds(description))
        both = np.isfinite(low) & np.isfinite(high)
        slack = np.subtract(high, low, out=np.full(low.shape, np.inf), where=both)
        return _numbers(low - slack, high + slack, "biuf", "far outside its bounds")
    if kind == "multi_binary":
        return _numbers(np.zeros(description["shape"]), np.ones(description["shape"]), "biuf", "not 0 or 1")
    start = np.asarray(description["start"])
    last = start + (np.asarray(description["nvec"]) if kind == "multi_discrete" else description["n"]) - 1
    return _numbers(start, last, "iu", f"outside {start.tolist()} to {last.tolist()}")


def check_observations(fault: Fault, client_id: int, copies: Sequence[int], call: str, values: Sequence[Any]) -> None:
    """Raise for the first of `copies` whose observation is at fault; `call` is the method that returned it."""
    if not fault(values):
        return
    copy, reason = next((copy, why) for copy, value in zip(copies, values, strict=True) if (why := fault([value])))
    raise EnvironmentFailed(
        f"client {client_id}, copy {copy}: the observation of {call} is {reason}; "
        "fix the environment or its observation_space, or exclude this client"
    )


def reward_number(client_id: int, copy: int, value: Any) -> float:
    """The reward as a float; an array is refused even if it holds only one number."""
    number = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(number, float | int) and not (isinstance(number, int) and abs(number) > LARGEST):
        return float(number)
    raise EnvironmentFailed(
        f"client {client_id}, copy {copy}: reward is {_show(value)}, expected one number; "
        "let step return float(...), or exclude this client"
    )


def flag(client_id: int, copy: int, name: str, value: Any) -> bool:
    """`terminated` or `truncated` as a bool; 0 and 1 are refused, as Gymnasium's interface asks for bools."""
    if isinstance(value, FLAGS) or (getattr(value, "shape", None) == () and value.dtype == bool):
        return bool(value)
    raise EnvironmentFailed(
        f"client {client_id}, copy {copy}: {name} is {_show(value)}, expected True or False; "
        f"let step return bool({name}), or exclude this client"
    )


def check_result(client_id: int, call: str, result: Any, expected: tuple[str, ...]) -> Any:
    """`result` if it is a tuple with one value for each of the names `expected`."""
    if isinstance(result, tuple) and len(result) == len(expected):
        return result
    actual = f"{len(result)} values" if isinstance(result, tuple) else _show(result)
    raise EnvironmentFailed(
        f"client {client_id}: {call} returned {actual}, expected ({', '.join(expected)}); {NEXT_MOVE}"
    )


def check_finite_rows(
    client_id: int, rows: np.ndarray | None, observations: np.ndarray, rewards: np.ndarray | None = None
) -> None:
    """`check_finite` for the copies `rows` (None: all of them), so that an error names the right copy."""

    def in_place(x: np.ndarray) -> np.ndarray:
        if rows is None:
            return x
        all_rows = np.zeros((rows.max(initial=0) + 1, *x.shape[1:]), x.dtype)
        all_rows[rows] = x
        return all_rows

    check_finite(client_id, in_place(observations), None if rewards is None else in_place(rewards))


class WarnOnce:
    """Whether a warning was given. An object of its own class, as its value is not part of a run's identity."""

    def __init__(self) -> None:
        self.done = False


class WarningSink:
    """Where warnings go: to Python's `warnings`, or from a worker process to the process that trains."""

    emit: Callable[[str], None] = staticmethod(partial(warnings.warn, stacklevel=4))


def warn_of_size(client_id: int, rewards: np.ndarray, warned: WarnOnce) -> None:
    """Warn of rewards beyond 1e9, once per `warned`."""
    largest = float(np.abs(rewards).max(initial=0.0))
    if not largest > HUGE or warned.done:
        return
    warned.done = True
    WarningSink.emit(
        f"client {client_id}: a reward of size {largest:.3g}, beyond {HUGE:.0e}: most likely a mistake, and no critic "
        "learns from such numbers unscaled; scale rewards in the environment (Gymnasium has "
        "gymnasium.wrappers.TransformReward), unless the learner filters them already"
    )


def warn_of_sizes(rewards: np.ndarray) -> None:
    """As `warn_of_size`, for the rewards of all clients [clients, ...]."""
    largest = np.abs(rewards).reshape(len(rewards), -1).max(axis=1)
    warn_of_size(int(largest.argmax()), rewards, WarnOnce())


def _numbers(low: np.ndarray, high: np.ndarray, kinds: str, otherwise: str) -> Fault:
    shape = np.shape(low)

    def fault(values: Sequence[Any] | np.ndarray) -> str | None:
        try:
            array = np.asarray(values)
        except ValueError:  # ragged
            return f"{_show(values[0])}, expected an array of shape {shape}"
        if array.shape[1:] != shape and array.dtype.kind in kinds:
            return f"an array of shape {array.shape[1:]}, expected {shape}"
        if array.dtype.kind not in kinds:
            return f"{_show(values[0])}, expected {'whole numbers' if kinds == 'iu' else 'numbers'}"
        if (array < low).any() or (array > high).any():
            return f"{_show(values[0])}, {otherwise}"
        return None

    return fault


def _entries(inner: dict[Any, Fault], kind: Any) -> Fault:
    """Check every entry of a Dict by its name, or of a Tuple by its position."""
    names = set(inner)

    def fault(values: Sequence[Any] | np.ndarray) -> str | None:
        for value in values:
            if not isinstance(value, kind) or set(value if isinstance(value, Mapping) else range(len(value))) != names:
                return f"{_show(value)}, expected the entries {', '.join(map(repr, inner))}"
        for name, check in inner.items():
            if reason := check([value[name] for value in values]):
                return f"in its entry {name!r} {reason}"
        return None

    return fault


def _show(value: Any) -> str:
    if getattr(value, "shape", ()) != ():
        short = np.array2string(np.asarray(value), precision=4, threshold=8).replace("\n", "")
        return f"an array of shape {tuple(value.shape)}: {short}"
    return (
        f"{value!r:.80}"
        if isinstance(value, str | bytes) or value is None
        else f"{value!r:.80} ({type(value).__name__})"
    )
