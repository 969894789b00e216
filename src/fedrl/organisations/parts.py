"""From the tables of federation.toml to the method, the evaluation and the shape of the federation: the same at the server
and at every site.

    [learner]                     ->  fedrl.learners.ppo(steps=512, policy=mlp(64, 64))
    name = "ppo"
    steps = 512
"""

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from fedrl import aggregation, algorithms, learners, policies, selection
from fedrl.arguments.fits import is_factory
from fedrl.channels.gaussian import gaussian
from fedrl.core.lock_step import needs_lock_step
from fedrl.environments import spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host, Simulator
from fedrl.evaluation import Evaluation, sampled_return
from fedrl.experiments import find
from fedrl.experiments.settings import configure
from fedrl.federations.federation import Federation, Method
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.tables import FileError, Table
from fedrl.types import Algorithm, Exchange

PLACES: dict[str, Any] = {  # the table or setting -> where its `name` is looked up
    "method": algorithms,
    "learner": learners,
    "policy": policies,
    "selection": selection,
    "combine": aggregation,
    "project": aggregation,
    "server": optax,
}
NESTED = ["direction", "trust", "optimizer", "learning_rate", "entropy", "decay", "steps_of"]  # parts of learners
PLACES |= dict.fromkeys(NESTED, learners)
FILE = "federation.toml"


class Parts(NamedTuple):
    """What federation.toml describes, without environments."""

    method: Method
    federation: Federation
    evaluation: Evaluation


def of(agreement: Agreement, federation: Federation | None = None) -> Parts:
    """The parts; `federation` is a site's own. Without it, environments cannot be opened, as at the server."""
    if agreement.tables["recipe"]:
        return _of_recipe(agreement, agreement.tables["recipe"], federation)
    where = federation or federation_of(agreement, closed)
    return Parts(_method(agreement), where, _evaluation(agreement))


def closed(client_id: int, env_params: Any, num_envs: int) -> Simulator:
    raise EnvironmentFailed(f"client {client_id}: its environment is at its site, and only there")


def federation_of(agreement: Agreement, open_simulator: Callable[[int, Any, int], Simulator]) -> Federation:
    """The federation with the agreed spaces; `open_simulator` opens the clients that are here."""
    if agreement.spaces is None:
        raise FileError(
            f"{FILE} has no [spaces]; `fedrl federation check` in a site's folder prints those of its environment"
        )
    described = descriptions(agreement)
    seen, done = (_check(spaces.policy_observations, described[0]), _check(spaces.policy_actions, described[1]))
    native = [spaces.common(one) for one in described]
    host = Host(
        open_simulator, seen, done, agreement.gamma, agreement.max_episode_steps,
        native_observations=native[0], native_actions=native[1],
    )  # fmt: skip
    weights = [site.weight for site in agreement.sites.values() for _ in site.clients]
    same = len(set(weights)) == 1
    return Federation(
        host, np.arange(agreement.num_clients, dtype=np.int32), weight=None if same else jnp.array(weights, jnp.float32)
    )


def descriptions(agreement: Agreement) -> list[dict[str, Any]]:
    """The agreed spaces of observations and of actions, as `environments.spaces` describes them."""
    assert agreement.spaces is not None
    both = [agreement.spaces[name] for name in ("observations", "actions")]
    return [_rescaled(space) if agreement.rescale else dict(space) for space in both]


def _rescaled(space: Table) -> dict[str, Any]:
    parts = space.get("spaces")
    if isinstance(parts, dict):
        return {**space, "spaces": {name: _rescaled(part) for name, part in parts.items()}}
    if isinstance(parts, list):
        return {**space, "spaces": [_rescaled(part) for part in parts]}
    return {**space, "rescaled": True} if space.get("type") == "box" else dict(space)


def _check(build: Callable[[dict[str, Any]], Any], space: dict[str, Any]) -> Any:
    try:
        return build(space)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{FILE} [spaces] cannot be used ({type(error).__name__}: {error}); `fedrl federation check` in a site's folder "
            "prints those of its environment"
        ) from None


def _method(agreement: Agreement) -> Method:
    tables = {name: table for name, table in agreement.tables.items() if table and name != "recipe"}
    method_table = dict(tables.pop("method"))
    for name in ("learner", "policy", "selection", "combine"):
        if name in tables:
            _place(name, tables[name], method_table, tables)
    method: Method = built("method", method_table)
    if agreement.privacy is None:
        return method
    clip, noise = agreement.privacy
    method = built("method", method_table | {"channel": gaussian(clip=clip, noise=noise)})
    return method


def _place(name: str, table: Table, method: dict[str, Any], tables: dict[str, Any]) -> None:
    """Put a table of its own where it belongs: into [method], or a [policy] into [learner]."""
    if name == "learner" and "policy" in tables and "policy" not in _parameters("method", method):
        table = {**table, "policy": tables["policy"]}
    if name == "policy" and "learner" in tables and "policy" not in _parameters("method", method):
        return
    if name not in _parameters("method", method):
        raise FileError(
            f"{FILE}: {method.get('name')} takes no {name}; remove [{name}], or choose another method, such as fedavg"
        )
    method[name] = table


def _parameters(place: str, table: Table) -> list[str]:
    return list(inspect.signature(_function(place, table)).parameters)


def built(place: str, table: Any) -> Any:
    """What a table with a `name` describes; other values are as TOML has them, lists as tuples."""
    if not isinstance(table, dict) or place not in PLACES:
        return tuple(table) if isinstance(table, list) else table
    function = _function(place, table)
    settings = {name: built(name, value) for name, value in table.items() if name != "name"}
    if ":" in str(table["name"]) and not settings:
        return function
    if place == "combine" and not settings and not is_factory(function):
        return function
    several = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_POSITIONAL]
    positional = settings.pop(several[0], settings.pop("sizes", ())) if several else ()
    try:
        return function(*positional, **settings)
    except (TypeError, ValueError) as error:
        raise FileError(f"{FILE} [{place}]: {error}") from error


def _function(place: str, table: Table) -> Callable[..., Any]:
    name = table.get("name")
    if not isinstance(name, str):
        raise FileError(f'{FILE} [{place}] has no name; say which one, such as name = "{_names(place)[0]}"')
    module, colon, item = name.partition(":")
    if colon:
        return _imported(place, module, item)
    if name in _names(place):
        function: Callable[..., Any] = getattr(PLACES[place], name)
        return function
    near = difflib.get_close_matches(name, _names(place), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_names(place)[:12])}, or module:object"
    raise FileError(f"{FILE} [{place}]: there is no {place} {name!r}; {hint}")


def _imported(place: str, module: str, item: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), item)
    except (ImportError, AttributeError) as error:
        raise FileError(
            f"{FILE} [{place}]: {module}:{item} cannot be imported here ({error}); install its package on every machine"
        ) from error
    return found


def _names(place: str) -> list[str]:
    return [name for name in PLACES[place].__all__ if name[:1].islower()]


def _evaluation(agreement: Agreement) -> Evaluation:
    return sampled_return(agreement.episodes, deterministic=agreement.deterministic)


def _of_recipe(agreement: Agreement, table: Table, federation: Federation | None) -> Parts:
    """A recipe that everybody has: its method and evaluation, and, where sites have no environments, its federation."""
    from fedrl.organisations.tables import Key, fields

    known = {"name": Key((str,)), "arm": Key((str,), ""), "settings": Key((dict,), {})}
    given = fields(table, known, f"{FILE} [recipe]")
    recipe = find.recipe(given["name"])
    arms = recipe.build(configure(recipe, paper=False, overrides=given["settings"], name=find.short(given["name"])))
    name = given["arm"] or next(iter(arms))
    if name not in arms:
        raise FileError(f"{FILE} [recipe]: {given['name']} has no arm {name!r}; it has {', '.join(map(repr, arms))}")
    arm = arms[name]
    where = federation or (arm.federation if agreement.spaces is None else federation_of(agreement, closed))
    if where.count != agreement.num_clients:
        raise FileError(
            f"{FILE}: the sites have {agreement.num_clients} clients, and the recipe has {where.count}; change [sites]"
        )
    return Parts(arm.method, where, arm.evaluation or _default_evaluation(agreement, where))


def _default_evaluation(agreement: Agreement, federation: Federation) -> Evaluation:
    from fedrl.evaluation import default_evaluation

    return _evaluation(agreement) if isinstance(federation.environment, Host) else default_evaluation(federation)


def check(algorithm: Algorithm) -> None:
    """Raise for methods that organisations cannot play."""
    for exchange in (*algorithm.opening, *algorithm.exchanges):
        if needs_lock_step(exchange):
            raise FileError(
                f"{FILE}: in exchange {exchange.name!r} clients share an environment, or send each other directions, at "
                "every step; sites are asked once per exchange, so choose another method"
            )


def exchanges_of(algorithm: Algorithm, evaluation: Exchange) -> dict[str, Exchange]:
    return {exchange.name: exchange for exchange in (*algorithm.opening, *algorithm.exchanges, evaluation)}
