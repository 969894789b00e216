"""The environments that a site names in its site.toml, opened there and nowhere else."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrl.environments import gymnasium_ids
from fedrl.environments.protocol import Host
from fedrl.federations.agents_as_rows import host_of_parallel
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import host_of
from fedrl.organisations import parts
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.site import Site
from fedrl.organisations.tables import FileError

MakeOwn = Callable[[int], Any]  # (i, counted from 0 among the site's clients) -> environment


def maker(site: Site) -> MakeOwn:
    """The function that makes the environment of the site's client i."""
    if ":" not in site.environment:
        return gymnasium_ids.maker(site.environment)
    found = imported(site)
    wants_number = any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        for p in inspect.signature(found).parameters.values()
    )
    return found if wants_number else lambda client: found()


def imported(site: Site) -> Callable[..., Any]:
    """The function that `environment` names; modules are looked for in the folders of `path`, then as usual."""
    module, _, item = site.environment.partition(":")
    sys.path[:0] = [str(folder) for folder in site.path if str(folder) not in sys.path]
    try:
        found = getattr(importlib.import_module(module), item)
    except ModuleNotFoundError as error:
        looked = ", ".join(str(folder) for folder in site.path)
        raise FileError(
            f"environment = {site.environment!r}: there is no module {error.name!r} (looked in {looked} and where Python is "
            "installed); install it there, or add its folder to `path` in site.toml"
        ) from error
    except AttributeError as error:
        raise FileError(
            f"environment = {site.environment!r}: the module {module} has no {item}; correct site.toml"
        ) from error
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise FileError(
            f"environment = {site.environment!r}: importing it raised {type(error).__name__}: {error} "
            f"({Path(where.filename).name}, line {where.lineno}); correct it there"
        ) from error
    if not callable(found):
        raise FileError(f"environment = {site.environment!r}: {item} is {found!r:.60}, expected a function; correct it")
    make: Callable[..., Any] = found
    return make


def federation(site: Site, agreement: Agreement) -> Federation:
    """The federation as this site knows it: only its own clients' environments can be opened."""
    own, make = agreement.clients_of(site.name), maker(site)

    def make_env(client: int) -> Any:
        return make(client - own.start)

    known = parts.federation_of(agreement, parts.closed)
    agreed = known.environment
    assert isinstance(agreed, Host)
    seen, done = parts.descriptions(agreement)
    build = host_of_parallel if site.kind == "pettingzoo" else host_of
    host = build(
        make_env,
        seen,
        done,
        gamma=agreement.gamma,
        max_episode_steps=agreement.max_episode_steps,
        rescale=agreement.rescale,
    )

    def open_own(client_id: int, env_params: Any, num_envs: int) -> Any:
        return (host.open if client_id in own else parts.closed)(client_id, env_params, num_envs)

    return parts.federation_of(agreement, open_own)
