"""From federation.toml to the method, the evaluation and the shape of the federation: the same at the server and at every
site. `from_tables` builds what a single table names, `language` what language agents need, `recipes` reads [recipe].
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedrl.channels.gaussian import gaussian
from fedrl.core.lock_step import needs_lock_step
from fedrl.environments import spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host, Simulator
from fedrl.evaluation import Evaluation, default_evaluation, sampled_return
from fedrl.federations.federation import Federation, Method
from fedrl.organisations import recipes
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.from_tables import FILE, built, parameters
from fedrl.organisations.tables import FileError, Table
from fedrl.types import Algorithm, Exchange


class Parts(NamedTuple):
    """What federation.toml describes, without environments."""

    method: Method
    federation: Federation
    evaluation: Evaluation


def of(
    agreement: Agreement, federation: Federation | None = None, *, model: Path | None = None, threads: int = 1
) -> Parts:
    """The parts; `federation` is a site's own. Without it, environments cannot be opened, as at the server.

    `model` is the folder of the language model, where the agreement has one, and `threads` those that it may use.
    """
    if agreement.tables["recipe"] is not None:
        return _of_recipe(agreement, federation)
    if agreement.tables["model"] is not None:
        return _of_language(agreement, federation, model, threads)
    if agreement.tables["tasks"] is not None:
        raise FileError(f"{FILE} has [tasks], which are for language agents; add their [model], or remove [tasks]")
    where = federation or federation_of(agreement, closed)
    return Parts(_method(agreement), where, _evaluation(agreement))


def closed(client_id: int, env_params: Any, num_envs: int) -> Simulator:
    raise EnvironmentFailed(f"client {client_id}: its environment is at its site, and only there")


def federation_of(agreement: Agreement, open_simulator: Callable[[int, Any, int], Simulator]) -> Federation:
    """The federation with the agreed spaces; `open_simulator` opens the clients that are here."""
    described = descriptions(agreement)
    seen, done = (_check(spaces.policy_observations, described[0]), _check(spaces.policy_actions, described[1]))
    native = [spaces.common(one) for one in described]
    host = Host(
        open_simulator, seen, done, agreement.gamma, agreement.max_episode_steps,
        native_observations=native[0], native_actions=native[1],
    )  # fmt: skip
    return Federation(host, np.arange(agreement.num_clients, dtype=np.int32), weight=weights(agreement))


def weights(agreement: Agreement) -> Any:
    """Those of all clients; None if they are alike."""
    each = [site.weight for site in agreement.sites.values() for _ in site.clients]
    return None if len(set(each)) == 1 else jnp.array(each, jnp.float32)


def descriptions(agreement: Agreement) -> list[dict[str, Any]]:
    """The agreed spaces of observations and of actions, as `environments.spaces` describes them."""
    if agreement.spaces is None:
        raise FileError(
            f"{FILE} has no [spaces]; `fedrl federation check` in a site's folder prints those of its environment"
        )
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


def _method(agreement: Agreement, learner: Any = None) -> Method:
    """The method; `learner` stands in for [learner] where that is a language agent's."""
    names = ("learner", "policy", "selection", "combine")
    tables: dict[str, Any] = {name: agreement.tables[name] for name in names if agreement.tables[name] is not None}
    tables |= {} if learner is None else {"learner": learner}
    method_table = dict(agreement.tables["method"] or {})
    for name, table in tables.items():
        _place(name, table, method_table, tables)
    if agreement.privacy is not None:
        clip, noise = agreement.privacy
        method_table["channel"] = gaussian(clip=clip, noise=noise)
    method: Method = built("method", method_table)
    return method


def _place(name: str, table: Any, method: dict[str, Any], tables: dict[str, Any]) -> None:
    """Put a table of its own where it belongs: into [method], or a [policy] into [learner]."""
    taken = parameters("method", method)
    if name == "learner" and "policy" in tables and "policy" not in taken:
        table = {**table, "policy": tables["policy"]}
    if name == "policy" and "learner" in tables and "policy" not in taken:
        return
    if name not in taken:
        raise FileError(
            f"{FILE}: {method.get('name')} takes no {name}; remove [{name}], or choose another method, such as fedavg"
        )
    method[name] = table


def _evaluation(agreement: Agreement) -> Evaluation:
    return sampled_return(agreement.episodes, deterministic=agreement.deterministic)


def _of_language(agreement: Agreement, federation: Federation | None, model: Path | None, threads: int) -> Parts:
    """Language agents: the policy is the model, and what it observes are texts."""
    from fedrl.organisations import language

    agents = language.agents(agreement, model, threads)
    method = agents.wrap(_method(agreement, agents.learner))
    where = federation or language.federation_of(agreement, language.closed, {})
    return Parts(method, where, agents.evaluation)


def _of_recipe(agreement: Agreement, federation: Federation | None) -> Parts:
    """A recipe that everybody has: its method and evaluation, and, where sites have no environments, its federation."""
    arm = recipes.arm_of(agreement)
    where = federation or (arm.federation if agreement.spaces is None else federation_of(agreement, closed))
    if where.count != agreement.num_clients:
        raise FileError(
            f"{FILE}: the sites have {agreement.num_clients} clients, and the recipe has {where.count}; change [sites]"
        )
    own = _evaluation(agreement) if isinstance(where.environment, Host) else default_evaluation(where)
    return Parts(arm.method, where, arm.evaluation or own)


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
