"""A finished arm brought back from its folder: its algorithm and its last state. Nothing is trained or compiled for it."""

import difflib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.core.round import State
from fedrl.experiments import find, outcomes
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.records import checkpoint
from fedrl.records.run_toml import RunFolderError
from fedrl.types import Algorithm


class TrainedArm(NamedTuple):
    arm: Arm
    algorithm: Algorithm
    state: State  # after the last round; every leaf has a leading seed axis


def arms(order: Order, wanted: str | None = None) -> dict[str, Arm]:
    """The arm called `wanted`, or all of them."""
    found = find.recipe(order.recipe).build(order.config)
    if wanted is None:
        return found
    if wanted not in found:
        near = difflib.get_close_matches(wanted, found, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, found))}"
        raise RecipeError(f"{order.recipe} has no arm {wanted!r}; {hint}")
    return {wanted: found[wanted]}


def load(order: Order, path: Path, name: str, arm: Arm) -> TrainedArm:
    """The arm `name` of the run in the folder `path`, as its last checkpoint has it."""
    place = outcomes.finished(path, name)
    algorithm = arm.method(arm.federation)
    found, damaged = checkpoint.newest(place / "checkpoint", like(arm, algorithm, order.seeds))
    if found is None or found.round != arm.rounds:
        there = "no whole checkpoint" if found is None else f"a whole checkpoint of round {found.round} only"
        why = f" ({damaged[0]})" if damaged else ""
        raise RunFolderError(
            f"{place / 'checkpoint'} has {there}{why}, wanted that of the last round, {arm.rounds}; "
            "repeat the run or use another copy"
        )
    return TrainedArm(arm, algorithm, found.state)


def like(arm: Arm, algorithm: Algorithm, seeds: int) -> State:
    """A state with the shapes of a run's: as the engines begin one, but for the opening, which leaves shapes alone."""
    federation = arm.federation

    def begin(seed: Array) -> State:
        key = jax.random.key(seed)
        clients = federation.enrol(federation.shared(), key, algorithm)
        return State(key, algorithm.init(keys.of(key, "init")), clients)

    return jax.tree.map(_blank, jax.eval_shape(jax.vmap(begin), jax.ShapeDtypeStruct((seeds,), jnp.uint32)))


def _blank(shape: Any) -> Array:
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), shape.shape)
    if shape.weak_type:
        return jnp.full(shape.shape, shape.dtype.type(0).item())
    return jnp.zeros(shape.shape, shape.dtype)
