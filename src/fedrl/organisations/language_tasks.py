"""The tasks of a site's language agents, which site.toml names: whoever else takes part never sees them.

kind = "text"
environment = "ward7.notes:Desk"     # or "webshop" or "household", with the settings of fedrl.llm.WebShop in [world]
tasks = [[0, 1, 2], [3, 4, 5]]       # the numbers of each client's tasks
held_out = [6, 7, 8, 9]              # as many for each client as the agreement has `episodes`
model = "model"
"""

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from fedrl.environments.errors import EnvironmentFailed
from fedrl.errors import FedRLError
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import naming_client
from fedrl.organisations import environments, language
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.site import Site
from fedrl.organisations.tables import FileError

WORLDS = {"webshop": "WebShop", "household": "Household"}
INFO = ("admissible_commands", "task_type", "score", "won")  # what agents need of every reset and step
MakeText = Callable[[], gymnasium.Env[str, str]]
Own = dict[int, tuple[list[int], list[int]]]  # client -> its tasks, and those that it is evaluated on


def at_site(site: Site, agreement: Agreement) -> Federation:
    """The federation with the tasks of this site's clients."""
    return language.federation_of(agreement, maker(site, agreement), own_tasks(site, agreement))


def own_tasks(site: Site, agreement: Agreement) -> Own:
    """The tasks of every client of the site; those held out are divided among them."""
    path, clients, each = site.files.settings, agreement.clients_of(site.name), agreement.episodes
    if len(site.tasks) != len(clients):
        raise FileError(
            f"{path}: tasks has {len(site.tasks)} lists, and the site {len(clients)} clients; give each client a list of "
            "the numbers of its tasks, such as tasks = [[0, 1, 2]]"
        )
    for place, tasks in enumerate(site.tasks):
        _check_numbers(tasks, f"{path}: tasks of client {place}")
    _check_numbers(site.held_out, f"{path}: held_out")
    if len(site.held_out) != len(clients) * each:
        raise FileError(
            f"{path}: held_out has {len(site.held_out)} tasks, expected {len(clients) * each}: federation.toml evaluates "
            f"every client on {each} (episodes), and the site has {len(clients)}"
        )
    if both := sorted({task for tasks in site.tasks for task in tasks} & set(site.held_out)):
        raise FileError(
            f"{path}: task {both[0]} is in held_out and in tasks; what is trained on measures nothing: remove it"
        )
    parts = [site.held_out[place * each : (place + 1) * each] for place in range(len(clients))]
    return dict(zip(clients, zip(site.tasks, parts, strict=True), strict=True))


def maker(site: Site, agreement: Agreement) -> MakeText:
    """Makes the site's text environment, with the agreed limit of steps."""
    if site.kind != "text" or not site.environment:
        raise FileError(
            f'{site.files.settings}: federation.toml has [model], so this is for language agents; write kind = "text" and '
            f'environment = {" or ".join(map(repr, WORLDS))} or "module:function"'
        )
    make, most = _make(site), agreement.max_episode_steps

    def make_text() -> gymnasium.Env[str, str]:
        env = make()
        if not isinstance(env, gymnasium.Env):
            raise EnvironmentFailed(
                f"environment = {site.environment!r} made a {type(env).__name__}, expected a gymnasium.Env of texts; "
                "correct it"
            )
        return TimeLimit(env, most) if most else env

    return make_text


def try_tasks(site: Site, agreement: Agreement, make: MakeText) -> None:
    """Begin the tasks with the smallest and the largest number of every client, and look what a reset returns."""
    for client, (tasks, held_out) in own_tasks(site, agreement).items():
        with naming_client(client, "environment"), make() as env:
            for task in sorted({min(tasks), max(tasks), min(held_out), max(held_out)}):
                with naming_client(client, "reset"):
                    observation, info = env.reset(seed=task, options={"task": task})
                _check_reset(client, observation, info)


def _check_reset(client: int, observation: Any, info: Any) -> None:
    if not isinstance(observation, str):
        raise EnvironmentFailed(
            f"client {client}: reset returned the observation {type(observation).__name__}, expected a text; "
            "correct the environment"
        )
    if missing := [name for name in INFO if name not in info]:
        raise EnvironmentFailed(
            f"client {client}: the info of reset has no {missing[0]}; language agents need {', '.join(INFO)} there, after "
            "every step too"
        )


def _make(site: Site) -> MakeText:
    if site.environment not in WORLDS:
        if ":" not in site.environment:
            raise FileError(
                f"{site.files.settings}: there is no text environment {site.environment!r}; write {', '.join(WORLDS)} or "
                "module:function"
            )
        if site.world:
            raise FileError(
                f"{site.files.settings} has [world], which is for {' and '.join(WORLDS)}; {site.environment} has its own "
                "settings: remove it"
            )
        return environments.imported(site)
    from fedrl import llm

    settings = {"held_out": 1, "public": 1} | dict(site.world)  # its own division of tasks is not used
    try:
        make: MakeText = getattr(llm, WORLDS[site.environment])(**settings).build().environment.make
    except FedRLError:
        raise
    except (TypeError, ValueError) as error:
        raise FileError(f"{site.files.settings} [world]: {error}") from error
    return make


def _check_numbers(tasks: Any, where: str) -> None:
    numbers = isinstance(tasks, list) and all(isinstance(x, int) and not isinstance(x, bool) for x in tasks)
    if not numbers or not tasks or min(tasks) < 0 or max(tasks) > 2**31 - 1:
        raise FileError(
            f"{where} expects a list of task numbers from 0 on, at least one, got {tasks!r:.60}; correct that line"
        )
    if len(set(tasks)) < len(tasks):
        raise FileError(f"{where} names a task twice; every number counts once")
