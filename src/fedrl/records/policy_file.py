"""`policy.safetensors`: the complete policy, with a header that any program can read; `best.safetensors` is of this kind.

Tensors have a leading seed axis; those under "clients/" a client axis after it. The header's entries are text or JSON:

    format           "fedrl-policy/1"
    fedrl            the version of the package that wrote it
    method           the federated algorithm, by name
    policy           {"kind": "categorical-mlp", "layers": [4, 64, 64, 2], "activation": "tanh", "filter": {…}}
    tensors          {"parameters": {"0/kernel": name of a tensor, …}, "filter": {"total": …, "mean": …, "squares": …}}
    own_tensors      the same for the clients of the federation, where each has tensors of its own under "clients/"
    observations     the space of observations, as `environments/spaces.py` describes it
    actions          the space of actions
    own_observations a list of every client's space of observations, and
    own_actions      of actions: where boxes are "rescaled" and the clients' bounds differ; null for one that did not open
    seeds            {"axis": 0, "first": 0, "count": 5}
    clients          how many the federation had
    rounds           how many were played

An entry of an observation x that comes from a "rescaled" box with two bounds below 1e30 is first mapped to [-1, 1]:
2 (x - low) / (high - low) - 1, or 2 (x - low) where the two are equal. Where there is a "filter", x is then
(x - mean) / spread, clipped to ± its "clip"; spread is sqrt(squares / (total - 1)) + epsilon where total > 1, and 1 before
that, when total is 0 or 1. Then the policy of its kind acts: "tanh" between the layers, x @ kernel + bias in each. Actions
for a "rescaled" box are clipped to [-1, 1] and mapped back, low + (a + 1) / 2 (high - low); for all boxes they are then
clipped to low and high.
"""

import json
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.core.round import State
from fedrl.environments import spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.federations.federation import Federation
from fedrl.policies.filtered import Filtered
from fedrl.policies.saved import FORMAT
from fedrl.records.tensors import named_leaves
from fedrl.rollouts.host import close
from fedrl.trees import Tree, row
from fedrl.types import Algorithm, Client


class Content(NamedTuple):
    """The content of the file."""

    tensors: dict[str, Any]  # a tree; its paths are the tensors' names
    header: dict[str, str]


def writer(algorithm: Algorithm, federation: Federation, seeds: range, method: str) -> Callable[[State], Content]:
    """`content` as a function of the state alone; clients whose bounds are asked for are opened once."""
    known = cache(lambda: _spaces(federation))
    return lambda state: content(algorithm, federation, state, seeds, method, known)


def content(
    algorithm: Algorithm, federation: Federation, state: State, seeds: range, method: str,
    known_spaces: Callable[[], dict[str, Any]] | None = None,
) -> Content:  # fmt: skip
    """The answer of every seed, those parts of the policy that clients hold themselves, and the header."""
    shares = bool(jax.tree.leaves(state.server))  # False if every client has its own parameters
    answer, memory = jax.vmap(algorithm.answer)(state.server) if shares else (), state.clients.memory
    own = _roles(algorithm, federation, state)
    used = {name for group in own.values() for name in group.values() if name.startswith("clients/")}
    tensors: dict[str, Any] = {"theta": answer} if shares else {}
    if used:
        tensors["clients"] = {name.removeprefix("clients/"): x for name, x in _named("clients", memory) if name in used}
    common = own
    if own.get("filter") and used.issuperset(own["filter"].values()):
        moments = {role: np.asarray(dict(_named("clients", memory))[name]) for role, name in own["filter"].items()}
        tensors["pooled"] = _pooled(**moments)
        common = own | {"filter": {role: f"pooled/{role}" for role in own["filter"]}}
    shared = own and not any(name.startswith("clients/") for name in common["parameters"].values())
    header = {
        "format": FORMAT,
        "fedrl": version("fedrl"),
        "method": method,
        "policy": algorithm.policy.about or {"kind": "unknown"},
        **(known_spaces() if known_spaces else _spaces(federation)),
        "seeds": {"axis": 0, "first": seeds.start, "count": len(seeds)},
        "clients": int(federation.count),
    }
    header |= ({"tensors": common} if shared else {}) | ({"own_tensors": own} if used else {})
    return Content(tensors, {key: x if isinstance(x, str) else json.dumps(x) for key, x in header.items()})


def name_of(method: Any) -> str:
    """The name of the function that returned the method."""
    call = getattr(method, "arguments", None)  # set by `arguments.checked`
    return str(call[0]) if call else getattr(method, "__qualname__", type(method).__name__).split(".")[0]


def _spaces(federation: Federation) -> dict[str, Any]:
    """The spaces of observations and actions in the user's own environment; text environments have none."""
    environment = federation.environment
    plain = (getattr(environment, name, None) for name in ("observations", "actions"))
    native = (getattr(environment, name, None) for name in ("native_observations", "native_actions"))
    seen, done = (
        own or (spaces.description_of(space) if space else None) for own, space in zip(native, plain, strict=True)
    )
    if not any(space and spaces.is_rescaled(space) for space in (seen, done)):
        return {"observations": seen, "actions": done}
    own = [_spaces_of(federation, client) for client in range(federation.count)]
    known = [pair for pair in own if pair != (None, None)]
    if known and all(pair == known[0] for pair in known):
        seen, done = known[0]
        return {"observations": seen, "actions": done}
    each = {"own_observations": [seen for seen, _ in own], "own_actions": [done for _, done in own]}
    return {"observations": seen, "actions": done, **each}


def _spaces_of(federation: Federation, client: int) -> tuple[Any, Any]:
    """A client's spaces with the bounds of its simulator; None if that cannot be opened."""
    env_params = jax.tree.map(lambda x: np.asarray(x)[client], federation.env_params)
    host: Any = federation.environment
    try:
        simulator = host.open(client, env_params, 1)
    except EnvironmentFailed:  # a client that training left out
        return None, None
    close(client, simulator)
    return simulator.observations, simulator.actions


def _roles(algorithm: Algorithm, federation: Federation, state: State) -> dict[str, dict[str, str]]:
    """The role of each tensor in the policy, by tracing `theta_of` from inputs to outputs. Empty if it computes anything.

    Nothing is computed here: shapes are enough.
    """
    answer, client = jax.eval_shape(partial(_first, algorithm, federation), state)

    def acts_with(answer: Tree, memory: Tree, client: Client) -> Tree:
        return algorithm.theta_of(answer, client._replace(memory=memory))

    traced, acting = jax.make_jaxpr(acts_with, return_shape=True)(answer, client.memory, client)
    names = [
        name for prefix, tree in (("theta", answer), ("clients", client.memory)) for name, _ in _named(prefix, tree)
    ]
    inputs = traced.jaxpr.invars[: len(names)]  # the rest are the client's other parts
    name_of = dict(zip(map(id, inputs), names, strict=True))
    sources = [name_of.get(id(variable)) for variable in traced.jaxpr.outvars]
    if None in sources:  # computed, not one of the inputs
        return {}
    whole = jax.tree.unflatten(jax.tree.structure(acting), sources)
    if not isinstance(whole, Filtered):
        return {"parameters": dict(_named("", whole))}
    return {"parameters": dict(_named("", whole.theta)), "filter": dict(_named("", whole.moments))}


def _first(algorithm: Algorithm, federation: Federation, state: State) -> tuple[Tree, Client]:
    """The answer of the first seed, and its first client."""
    server, clients = row((state.server, state.clients), 0)
    rows = federation.rows(federation.shared(), clients, jnp.arange(1, dtype=jnp.int32))
    return algorithm.answer(server), row(rows, 0)


def _named(prefix: str, tree: Tree) -> list[tuple[str, Any]]:
    return list(named_leaves({prefix: tree} if prefix else tree).items())


def _pooled(total: np.ndarray, mean: np.ndarray, squares: np.ndarray) -> dict[str, np.ndarray]:
    """The moments of all clients together, from each client's own [seeds, clients, ...], for a new client."""
    count, centre, spread = (x.astype(np.float64) for x in (total, mean, squares))
    number = count.sum(axis=1)
    common = (count[..., None] * centre).sum(axis=1) / np.maximum(number, 1.0)[:, None]
    around = (spread + count[..., None] * (centre - common[:, None]) ** 2).sum(axis=1)
    return {name: x.astype(np.float32) for name, x in (("total", number), ("mean", common), ("squares", around))}
