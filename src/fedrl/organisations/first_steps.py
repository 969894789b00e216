"""A site's method, refusals and environment, tried out: `check_environment` starts this in a process of its own.

    python -P -m fedrl.organisations.first_steps SITE_DIR OUT

writes every item to OUT as soon as it is known, one JSON object per line, so that it is known where a process hangs or dies.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from fedrl.environments import spaces
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.spaces import Description
from fedrl.errors import FedRLError
from fedrl.federations.federation import Method
from fedrl.federations.gymnasium_envs import describe_spaces, naming_client
from fedrl.organisations import agreement as agreements
from fedrl.organisations import check_spaces, environments, parts, site_work
from fedrl.organisations import site as sites
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.check_environment import CLIENTS, IMPORT, METHOD, REFUSALS, RESET, SPACES, STEPS
from fedrl.organisations.check_items import FAIL, Item, fail, ok, skipped, warn
from fedrl.organisations.layout import SiteFiles
from fedrl.organisations.model_files import NO_FILES, NotAgreed
from fedrl.organisations.site import Site
from fedrl.organisations.status import in_words
from fedrl.organisations.step_times import first_reset, most_steps, short, time_steps
from fedrl.rollouts.host import close
from fedrl.types import Algorithm

MEND = "correct the environment; stepping it alone in Python shows a traceback"


class Opened(NamedTuple):
    """The environment of the site's first client."""

    env: Any
    described: list[Description]  # its observations and actions, by itself


def main(home: Path, out: Path) -> None:
    site, agreement = sites.read(home), agreements.read(SiteFiles(home).agreement)
    with out.open("a", encoding="utf-8") as file:
        for item in look(site, agreement):
            file.write(json.dumps(item._asdict()) + "\n")
            file.flush()


def look(site: Site, agreement: Agreement) -> Iterator[Item]:
    """One item for each of `check_environment.NAMES`, in this order."""
    failed = False
    for item in _first(site, agreement):
        failed = failed or item.result == FAIL
        yield item
    yield skipped(CLIENTS, "correct the lines above first") if failed else _clients(site, agreement)


def _first(site: Site, agreement: Agreement) -> Iterator[Item]:
    """What can be said of the method, and of the environment of the first client."""
    method, algorithm = None, None
    if agreement.spaces is None and not agreement.tables["recipe"] and not agreement.tables["model"]:
        yield skipped(METHOD, "federation.toml has no [spaces]")
    else:
        try:
            method, algorithm = _built(site, agreement)
            yield ok(METHOD, f"{_name(agreement)} can be built")
        except NotAgreed as error:
            yield fail(METHOD, NO_FILES, error.proposal)
        except FedRLError as error:
            yield fail(METHOD, str(error), "install what is missing, or tell the operator")
        except Exception as error:  # of a module that federation.toml names, or what its settings are checked with
            yield fail(METHOD, f"building it raised {type(error).__name__}: {error}", "tell the operator")
    yield _refusals(site, agreement, method, algorithm)
    if agreement.tables["model"]:
        yield from _tasks(site, agreement)
    else:
        yield from _environment(site, agreement, algorithm)


def _built(site: Site, agreement: Agreement) -> tuple[Method, Algorithm]:
    """The algorithm without environments; errors are sentences."""
    known = parts.of(agreement, model=site.model)
    algorithm = known.method(known.federation)
    parts.check(algorithm)
    return known.method, algorithm


def _name(agreement: Agreement) -> str:
    return str((agreement.tables["method"] or agreement.tables["recipe"] or {}).get("name", "the method"))


def _refusals(site: Site, agreement: Agreement, method: Method | None, algorithm: Algorithm | None) -> Item:
    if not any((site.refuse.algorithms, site.refuse.largest_local_steps, site.refuse.smallest_noise)):
        return ok(REFUSALS, "site.toml refuses nothing")
    if method is None or algorithm is None:
        return skipped(REFUSALS, "the method cannot be built")
    try:
        site_work.refuse(site, agreement, method, algorithm)
    except FedRLError as error:
        return fail(REFUSALS, str(error), "")
    return ok(REFUSALS, "federation.toml asks for nothing that site.toml refuses")


def _environment(site: Site, agreement: Agreement, algorithm: Algorithm | None) -> Iterator[Item]:
    names = (IMPORT, SPACES, RESET, STEPS)
    if not site.environment:
        yield from (skipped(name, "site.toml names no environment") for name in names)
        return
    try:
        make = environments.maker(site)
        yield ok(IMPORT, site.environment)
    except FedRLError as error:
        yield fail(IMPORT, str(error), "")
        yield from (skipped(name, "the environment cannot be imported") for name in names[1:])
        return
    try:
        with naming_client(agreement.clients_of(site.name).start, "make_env"):
            env = make(0)
        opened = _open(env, site, agreement)
    except FedRLError as error:
        yield fail(SPACES, str(error), MEND)
        yield from (skipped(name, "there is no environment with spaces") for name in names[2:])
        return
    equal = _spaces(opened, agreement)
    yield equal
    yield from _acts(site, agreement, algorithm, opened)


def _tasks(site: Site, agreement: Agreement) -> Iterator[Item]:
    """Of language agents, whose environments are made of texts."""
    from fedrl.organisations import language_tasks

    try:
        make = language_tasks.maker(site, agreement)
    except FedRLError as error:
        yield fail(IMPORT, str(error), "")
        yield from (skipped(name, "the environment cannot be imported") for name in (SPACES, RESET, STEPS))
        return
    yield ok(IMPORT, site.environment)
    yield ok(SPACES, "texts")
    try:
        language_tasks.try_tasks(site, agreement, make)
        yield ok(RESET, "every client's first and last tasks begin with a text and the commands to choose from")
    except FedRLError as error:
        yield fail(RESET, str(error), MEND)
    yield skipped(STEPS, "language agents need the model for them")


def _open(env: Any, site: Site, agreement: Agreement) -> Opened:
    client, agents = agreement.clients_of(site.name).start, getattr(env, "possible_agents", None)
    if agents is None and not isinstance(env, gym.Env):
        wanted = "a parallel environment of PettingZoo" if site.kind == "pettingzoo" else "a gymnasium.Env"
        raise EnvironmentFailed(
            f"client {client}: make_env returned {type(env).__name__}, expected {wanted}; fix make_env"
        )
    kind = "gymnasium" if agents is None else "pettingzoo"
    if kind != site.kind:
        raise EnvironmentFailed(
            f"{site.environment} makes a {type(env).__name__} {'without' if agents is None else 'with'} possible_agents, "
            f'and site.toml says kind = "{site.kind}"; write kind = "{kind}"'
        )
    with naming_client(client, "observation_space or action_space"):
        seen, done = env.observation_space, env.action_space
        if agents is not None:
            seen, done = seen(agents[0]), done(agents[0])
    return Opened(env, describe_spaces(seen, done, client, agreement.rescale))


def _spaces(opened: Opened, agreement: Agreement) -> Item:
    if agreement.spaces is None:
        if agreement.tables["recipe"]:
            return ok(SPACES, "the recipe's own")
        text = check_spaces.to_toml(*opened.described)
        do = f"if everybody agrees on these, the operator adds them and hands the file out:\n{text}"
        return fail(SPACES, "federation.toml has no [spaces]", do)
    try:
        parts.federation_of(agreement, parts.closed)
    except FedRLError as error:
        return fail(SPACES, str(error), "tell the operator")
    agreed = parts.descriptions(agreement)
    pairs = zip(opened.described, agreed, ("observations", "actions"), strict=True)
    phrases = [
        phrase
        for own, other, name in pairs
        for phrase in check_spaces.differences(spaces.common(own), spaces.common(other), name)
    ]
    if phrases:
        do = "change the environment (gymnasium.wrappers helps), or agree on other spaces; rescale = true evens out bounds"
        return fail(SPACES, "; ".join(phrases), do)
    return ok(SPACES, "those of federation.toml")


def _acts(site: Site, agreement: Agreement, algorithm: Algorithm | None, opened: Opened) -> Iterator[Item]:
    if site.kind == "pettingzoo" and agreement.spaces is None:
        yield from (skipped(name, "federation.toml has no [spaces]") for name in (RESET, STEPS))
        return
    try:
        trial = first_reset(site, agreement, opened.env)
    except FedRLError as error:
        yield fail(RESET, str(error), MEND)
        yield skipped(STEPS, "the first reset failed")
        return
    yield ok(RESET, f"a finite observation after {short(trial.seconds)}")
    try:
        count, each = time_steps(trial, spaces.policy_actions(opened.described[1]))
    except FedRLError as error:
        yield fail(STEPS, str(error), MEND)
        return
    close(agreement.clients_of(site.name).start, trial.simulator)  # `_clients` opens it again
    text = f"{count} steps with finite observations and rewards, {short(each)} each"
    cost = 0.0 if algorithm is None else most_steps(algorithm, agreement) * each * len(agreement.clients_of(site.name))
    if cost >= 1.0:
        text += f"; a round takes at most {in_words(cost)} of simulation here"
    if cost > agreement.rules.deadline:
        do = "agree on fewer steps or a longer deadline, or make the environment faster"
        yield warn(STEPS, f"{text}, but the deadline is {agreement.rules.deadline:g} s", do)
    else:
        yield ok(STEPS, text)


def _clients(site: Site, agreement: Agreement) -> Item:
    """What `join` does before it connects: every client's environment is opened once."""
    if agreement.tables["model"]:
        return skipped(CLIENTS, "language agents need the model for it")
    try:
        site_work.SiteWork(site, agreement).try_environments()
    except FedRLError as error:
        return fail(CLIENTS, str(error), "")
    except Exception as error:  # of a module that federation.toml names, or what its settings are checked with
        return fail(CLIENTS, f"starting raised {type(error).__name__}: {error}", "tell the operator")
    return ok(CLIENTS, f"{site.clients} of {site.clients} can take part")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
