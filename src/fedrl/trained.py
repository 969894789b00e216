"""A federation after training: what is needed to act in it again. Nothing is trained or compiled here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.core.round import State
from fedrl.engines.engine import Engine
from fedrl.environments.protocol import Environment, Host
from fedrl.evaluation import Evaluation
from fedrl.faults import Faults
from fedrl.federations.federation import Federation, Method
from fedrl.policies.saved import SavedPolicy
from fedrl.records import checkpoint
from fedrl.records.run_toml import RunFolderError
from fedrl.records.tensors import named_leaves
from fedrl.trees import Tree, zeros_of
from fedrl.types import Algorithm


class Experiment(NamedTuple):
    """What `fedrl.train` was asked to do: the content of `experiment.pkl`."""

    method: Method
    federation: Federation
    rounds: int
    seeds: range
    engine: Engine
    evaluation: Evaluation
    eval_every: int
    snapshot: Any
    faults: Faults
    stop_at: float | None
    patience: int | None
    keep_best: bool


class Trained(NamedTuple):
    algorithm: Algorithm
    federation: Federation
    engine: Engine
    evaluation: Evaluation | None  # as in training; None: the default
    state: State  # after `round`; every leaf has a leading seed axis
    round: int

    @property
    def language(self) -> bool:
        """Whether its clients are language agents, whose observations and actions are text."""
        return not isinstance(self.federation.environment, Environment | Host)


def restore(
    method: Method, federation: Federation, engine: Engine, evaluation: Evaluation | None, *, place: Path, seeds: int,
    rounds: int,
) -> Trained:  # fmt: skip
    """The state after the last of `rounds` rounds, from the checkpoint in the folder `place`."""
    algorithm = method(federation)
    newest, corrupted = checkpoint.newest(place / "checkpoint", like(algorithm, federation, seeds))
    if newest is None or newest.round != rounds:
        content = "no whole checkpoint" if newest is None else f"only a whole checkpoint of round {newest.round}"
        reason = f" ({corrupted[0]})" if corrupted else ""
        raise RunFolderError(
            f"{place / 'checkpoint'} has {content}{reason}, expected that of the last round, {rounds}; "
            "repeat the run or use another copy"
        )
    return Trained(algorithm, federation, engine, evaluation, newest.state, rounds)


def acting_with(it: Trained, policy: SavedPolicy) -> Trained:
    """The same federation with the policy of a file, that of the best evaluation say, in the place of the last round's.

    The file holds the server's answer and what clients act with of their own memories. All else, such as an optimiser's
    state, stays as after the last round: acting does not read it.
    """
    memory = it.state.clients.memory
    if not {"tensors", "own_tensors"} & policy.header.keys() and jax.tree.leaves(memory):
        raise RunFolderError(
            "clients of this run act with what the learner's own code computes from their memories, which the file of the "
            "best policy does not hold; leave out best"
        )
    server = _with_leaves(it.state.server, _names_in_answer(it), policy.tensors)
    memory = _with_leaves(memory, list(named_leaves({"clients": memory})), policy.tensors)
    state = it.state._replace(server=server, clients=it.state.clients._replace(memory=memory))
    return it._replace(state=state, round=int(policy.header["rounds"]))


def _names_in_answer(it: Trained) -> list[str | None]:
    """For each leaf of the server's state, its name in the policy file; None if it is no part of the answer."""
    server = jax.tree.map(lambda x: x[0], it.state.server)
    traced = jax.make_jaxpr(it.algorithm.answer)(server).jaxpr
    names = named_leaves({"theta": it.algorithm.answer(server)})
    name_of = dict(zip(map(id, traced.outvars), names, strict=True))
    found = [name_of.pop(id(variable), None) for variable in traced.invars]
    if name_of:
        raise RunFolderError(
            "the server of this run computes the parameters to act with, so they cannot be put back; leave out best"
        )
    return found


def _with_leaves(tree: Tree, names: list[Any], tensors: Mapping[str, np.ndarray]) -> Tree:
    """The tree with those leaves replaced whose name is among `tensors`."""
    leaves, structure = jax.tree.flatten(tree)
    for place, name in enumerate(names):
        if name in tensors:
            if tensors[name].shape != leaves[place].shape:
                raise RunFolderError(
                    f"the best policy's {name} has shape {tensors[name].shape}, the run's {leaves[place].shape}; repeat the "
                    "run or use another copy"
                )
            leaves[place] = jnp.asarray(tensors[name], leaves[place].dtype)
    return jax.tree.unflatten(structure, leaves)


def like(algorithm: Algorithm, federation: Federation, seeds: int) -> State:
    """A state with the shapes of a run's: as engines initialise it, without the opening, which changes no shapes."""

    def begin(seed: Array) -> State:
        key = jax.random.key(seed)
        clients = federation.enrol(federation.shared(), key, algorithm)
        return State(key, algorithm.init(keys.of(key, "init")), clients)

    shapes = jax.eval_shape(jax.vmap(begin), jax.ShapeDtypeStruct((seeds,), jnp.uint32))
    zeros: State = zeros_of(shapes)
    return zeros
