"""A saved policy as a list of arrays and steps, from the environment's own observation to its own action.

Every format writes down this record. The steps, in order:

1. each array of the observation becomes a float32 row: whole numbers one-hot, "rescaled" boxes mapped to [-1, 1];
2. rows side by side are standardised where the policy has a filter;
3. the network or the table gives the parameters: logits, or the mean of a Gaussian;
4. the most likely choice becomes the action: counted from the space's start, or mapped back and clipped to its bounds.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fedrl.environments import spaces
from fedrl.environments.spaces import Description
from fedrl.policies.filtered import deviation
from fedrl.policies.network import Layers
from fedrl.policies.saved import Act

FORMAT = "fedrl-export/1"
OUTPUTS = ("action", "logits", "values", "mean", "std")  # names that a format with named outputs may use
Exported = Callable[[Any], tuple[np.ndarray, np.ndarray]]  # (stacked observations) -> actions, parameters


class Rescaling(NamedTuple):
    """Of the entries where `bounded`, float64: 2 (x - low) / width - shift in, low + (x + 1) / 2 * full width out."""

    bounded: np.ndarray
    low: np.ndarray
    width: np.ndarray
    shift: np.ndarray  # 0 where both bounds are equal, else 1


class Leaf(NamedTuple):
    """One array of the observation."""

    name: str
    path: tuple[str | int, ...]  # where it is in a Dict or Tuple
    shape: tuple[int, ...]
    dtype: str
    sizes: tuple[int, ...] = ()  # whole numbers: how many values each entry has; () for a box and for bits
    start: tuple[int, ...] = ()  # whole numbers: their smallest values
    low: np.ndarray | None = None  # of a box
    high: np.ndarray | None = None
    rescaling: Rescaling | None = None

    @property
    def width(self) -> int:
        """How many numbers the network reads of it."""
        return sum(self.sizes) if self.sizes else int(np.prod(self.shape, dtype=int))


class ActionSpace(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    start: np.ndarray | None = None  # of whole numbers, flat
    low: np.ndarray | None = None  # of a box, flat
    high: np.ndarray | None = None
    rescaling: Rescaling | None = None


class Program(NamedTuple):
    leaves: tuple[Leaf, ...]
    mean: np.ndarray | None  # of the filter, None without one
    scale: np.ndarray | None
    clip: float
    layers: Layers
    table: np.ndarray | None  # [states, actions], instead of layers
    sizes: tuple[int, ...]  # of the logits of each dimension; () for a Gaussian
    std: np.ndarray | None  # of a Gaussian
    hold: int
    draws: bool
    action: ActionSpace
    observations: Description
    about: dict[str, Any]  # for people and programs: format, spaces, where it comes from

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what a format with named outputs gives."""
        if not self.sizes:
            return "action", "mean", "std"
        return "action", "logits" if self.draws else "values"


def program(act: Act, clip: float, about: dict[str, Any]) -> Program:
    """The steps of `act`; `clip` is that of its filter."""
    actor = act.actor
    made = Program(
        leaves=tuple(_named(_leaves(act.observations, ()))),
        mean=None if act.moments is None else act.moments.mean,
        scale=None if act.moments is None else deviation(act.moments),
        clip=clip,
        layers=actor.layers,
        table=actor.table,
        sizes=actor.sizes,
        std=actor.std,
        hold=actor.hold,
        draws=actor.draws,
        action=_action_space(act.actions),
        observations=act.observations,
        about={},
    )
    inputs = [leaf.name for leaf in made.leaves]
    about = {"format": FORMAT, **about, "inputs": inputs, "outputs": list(made.outputs)}
    return made._replace(about=about | {"observations": act.observations, "actions": act.actions})


def arrays_of(program: Program, observations: Any) -> dict[str, np.ndarray]:
    """The arrays of stacked observations, by their names and in their order."""
    arrays = {}
    for leaf in program.leaves:
        part = observations
        for step in leaf.path:
            part = part[step]
        arrays[leaf.name] = np.ascontiguousarray(part, leaf.dtype)
    return arrays


def _named(leaves: list[Leaf]) -> Iterator[Leaf]:
    """The leaves by names of their own: a Dict may call a part "action", or {"a": {"b"}} and "a/b" may both be there."""
    taken = set(OUTPUTS)
    for leaf in leaves:
        name = leaf.name
        while name in taken or name.startswith("/"):  # "/" begins what ONNX's graph calls its own values
            name = f"observation/{name}"
        taken.add(name)
        yield leaf._replace(name=name)


def _leaves(description: Description, path: tuple[str | int, ...]) -> list[Leaf]:
    kind = description["type"]
    if kind in ("dict", "tuple"):
        parts = description["spaces"]
        names = sorted(parts) if kind == "dict" else range(len(parts))
        return [leaf for name in names for leaf in _leaves(parts[name], (*path, name))]
    name = "/".join(map(str, path)) or "observation"
    if kind == "discrete":
        return [Leaf(name, path, (), description["dtype"], (description["n"],), (description["start"],))]
    if kind == "multi_discrete":
        sizes, start = np.asarray(description["nvec"]), np.asarray(description["start"])
        flat = tuple(map(int, sizes.ravel())), tuple(map(int, start.ravel()))
        return [Leaf(name, path, sizes.shape, description["dtype"], *flat)]
    shape = tuple(description["shape"])
    if kind == "multi_binary":
        return [Leaf(name, path, shape, "int8", low=np.zeros(int(np.prod(shape))), high=np.ones(int(np.prod(shape))))]
    low, high = spaces.bounds(description)
    return [Leaf(name, path, shape, description["dtype"], (), (), low, high, _rescaling(description))]


def _action_space(description: Description) -> ActionSpace:
    kind = description["type"]
    if kind == "box":
        low, high = spaces.bounds(description)
        shape = tuple(description["shape"])
        return ActionSpace(shape, description["dtype"], None, low, high, _rescaling(description, back=True))
    if kind == "multi_binary":
        shape = tuple(description["shape"])
        return ActionSpace(shape, "int8", np.zeros(int(np.prod(shape)), np.int64))
    start = np.asarray(description["start"], np.int64)
    return ActionSpace(start.shape, description["dtype"], start.ravel())


def _rescaling(description: Description, *, back: bool = False) -> Rescaling | None:
    """None for a box that is read as it is. On the way `back` a width may be zero; on the way in it divides."""
    if not description.get("rescaled"):
        return None
    bounded, low, width = spaces.scale(*spaces.bounds(description))
    shift = (width > 0).astype(np.float64)
    return Rescaling(bounded, low, width if back else np.where(width > 0, width, 1.0), shift)
