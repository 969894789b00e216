"""The environments that a site names in its site.toml, opened there and nowhere else."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.environments import gymnasium_ids, spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.protocol import Host, OpenSimulator, Simulator
from fedrl.environments.spaces import Description
from fedrl.federations import agents_as_rows
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import host_of
from fedrl.organisations import parts
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.check_spaces import differences
from fedrl.organisations.site import Site
from fedrl.organisations.tables import FileError
from fedrl.rollouts.host import close

COPY = {"gymnasium": 1, "pettingzoo": 0}  # what to open for one copy: with 0, as many agents as there are
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
    if not module or not item:
        raise FileError(f'environment = {site.environment!r}: expected "module:function"; correct site.toml')
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
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = "" if isinstance(error, SyntaxError) else f" ({Path(where.filename).name}, line {where.lineno})"
        raise FileError(
            f"environment = {site.environment!r}: importing it raised {type(error).__name__}: {error}{line}; "
            "correct it there"
        ) from error
    if not callable(found):
        raise FileError(f"environment = {site.environment!r}: {item} is {found!r:.60}, expected a function; correct it")
    make: Callable[..., Any] = found
    return make


def federation(site: Site, agreement: Agreement) -> Federation:
    """The federation as this site knows it: only its own clients' environments can be opened."""
    own, opens = agreement.clients_of(site.name), _opener(site, agreement)

    def open_own(client_id: int, env_params: Any, num_envs: int) -> Simulator:
        return (opens if client_id in own else parts.closed)(client_id, env_params, num_envs)

    return parts.federation_of(agreement, open_own)


def try_all(site: Site, agreement: Agreement, environment: Host) -> None:
    """Open one copy of the environment of each of the site's clients."""
    for client in agreement.clients_of(site.name):
        simulator: Any = environment.open(client, np.int32(client), COPY[site.kind])
        agents = simulator.agents if site.kind == "pettingzoo" else 1
        close(client, simulator)
        if agreement.episodes % agents:
            raise FileError(
                f"{site.files.settings}: the environment of client {client} has {agents} agents, each of whose episodes "
                f"counts; federation.toml has episodes = {agreement.episodes}, so agree on a multiple of {agents}"
            )


def _opener(site: Site, agreement: Agreement) -> OpenSimulator:
    make, first, agreed = maker(site), agreement.clients_of(site.name).start, parts.descriptions(agreement)
    most, rescale = agreement.max_episode_steps, agreement.rescale

    def check(client: int, whose: str, own: Sequence[Description]) -> None:
        phrases = [
            phrase
            for mine, other, name in zip(own, agreed, ("observations", "actions"), strict=True)
            for phrase in differences(spaces.common(mine), spaces.common(other), name)
        ]
        if phrases:
            raise EnvironmentFailed(
                f"client {client}{whose}: {'; '.join(phrases)}; change the environment, or agree on other [spaces]"
            )

    if site.kind == "pettingzoo":
        if not most:
            raise FileError(
                f'{site.files.settings} says kind = "pettingzoo", whose episodes need a limit; agree on max_episode_steps'
            )
        return agents_as_rows.opener(
            lambda client: partial(make, client - first),
            lambda client, agent, own: check(client, f", {agent}", own),
            max_episode_steps=most,
            rescale=rescale,
        )
    host = host_of(
        lambda client: make(client - first),
        agreed,
        lambda client, env, own: check(client, "", own),
        gamma=agreement.gamma,
        max_episode_steps=most,
        rescale=rescale,
    )
    return host.open
