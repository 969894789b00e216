"""A finished arm restored from its folder: its algorithm and its last state. Nothing is trained or compiled."""

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


def arms(order: Order, name: str | None = None) -> dict[str, Arm]:
    """The arm called `name`, or all of them."""
    every_arm = find.recipe(order.recipe).build(order.config)
    if name is None:
        return every_arm
    if name not in every_arm:
        near = difflib.get_close_matches(name, every_arm, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, every_arm))}"
        raise RecipeError(f"{order.recipe} has no arm {name!r}; {hint}")
    return {name: every_arm[name]}


def load(order: Order, path: Path, name: str, arm: Arm) -> TrainedArm:
    """The arm `name` of the run in the folder `path`, as of its last checkpoint."""
    place = outcomes.finished(path, name)
    algorithm = arm.method(arm.federation)
    newest, corrupted = checkpoint.newest(place / "checkpoint", like(arm, algorithm, order.seeds))
    if newest is None or newest.round != arm.rounds:
        content = "no whole checkpoint" if newest is None else f"only a whole checkpoint of round {newest.round}"
        reason = f" ({corrupted[0]})" if corrupted else ""
        raise RunFolderError(
            f"{place / 'checkpoint'} has {content}{reason}, expected that of the last round, {arm.rounds}; "
            "repeat the run or use another copy"
        )
    return TrainedArm(arm, algorithm, newest.state)


def like(arm: Arm, algorithm: Algorithm, seeds: int) -> State:
    """A state with the shapes of a run's: as engines initialise it, without the opening, which changes no shapes."""
    federation = arm.federation

    def begin(seed: Array) -> State:
        key = jax.random.key(seed)
        clients = federation.enrol(federation.shared(), key, algorithm)
        return State(key, algorithm.init(keys.of(key, "init")), clients)

    shapes = jax.eval_shape(jax.vmap(begin), jax.ShapeDtypeStruct((seeds,), jnp.uint32))
    zeros: State = jax.tree.map(_zeros, shapes)
    return zeros


def _zeros(shape: Any) -> Array:
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), shape.shape)
    if shape.weak_type:
        return jnp.full(shape.shape, shape.dtype.type(0).item())
    return jnp.zeros(shape.shape, shape.dtype)
