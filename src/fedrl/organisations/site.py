"""`site.toml`: what is a site's own, and what it refuses. Nothing of it travels but the site's name and its clients."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.organisations import addresses
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.layout import SiteFiles
from fedrl.organisations.tables import FileError, Key, fields
from fedrl.organisations.tables import read as read_toml

TOP = {
    "site": Key((str,)),
    "server": Key((str,)),
    "environment": Key((str,), ""),
    "clients": Key((int,), 1, 1, 10_000),
    "path": Key((list,), ["."]),
    "kind": Key((str,), "gymnasium"),
    "tasks": Key((list,), []),
    "held_out": Key((list,), []),
    "world": Key((dict,), {}),
    "model": Key((str,), ""),
    "threads": Key((int,), 0, 0, 10_000),
    "shared_test_seed": Key((int,), None, 0, 2**32 - 1),
    "refuse": Key((dict,), {}),
}
KINDS = ("gymnasium", "pettingzoo", "text")
REFUSE = {
    "algorithms": Key((list,), []),
    "largest_local_steps": Key((int,), None, 1, 2**31 - 1),
    "smallest_noise": Key((float,), None, 0, 1e9),
}


class Refusals(NamedTuple):
    """In which federations this site takes no part."""

    algorithms: list[str]
    largest_local_steps: int | None
    smallest_noise: float | None


class Site(NamedTuple):
    home: Path
    name: str
    server: str  # host:port
    environment: str  # a Gymnasium id, module:function, or a world of `language_tasks`
    clients: int
    path: list[Path]  # where modules of its own are found
    kind: str  # of KINDS
    tasks: list[Any]  # of language agents: the numbers of each client's tasks
    held_out: list[Any]  # the numbers of the tasks on which its clients are evaluated
    world: dict[str, Any]  # settings of a built-in text environment
    model: Path | None  # the folder of the language model
    threads: int  # that its simulators and its language model may use; 0: as many as there are cores
    shared_test_seed: int | None  # in tests, in place of the secret
    refuse: Refusals

    @property
    def model_threads(self) -> int:
        """Those of its language model."""
        return self.threads or os.cpu_count() or 1

    @property
    def files(self) -> SiteFiles:
        return SiteFiles(self.home)


def read(home: Path) -> Site:
    path = SiteFiles(home).settings
    top = fields(read_toml(path), TOP, str(path))
    if top["kind"] not in KINDS:
        raise FileError(f"{path}: kind must be {', '.join(KINDS)}, got {top['kind']!r}; correct that line")
    addresses.parse_reachable(top["server"], f"{path}: server")
    folders = _texts(top["path"], f"{path}: path")
    refuse = Refusals(**fields(top["refuse"], REFUSE, f"{path} [refuse]"))
    _texts(refuse.algorithms, f"{path} [refuse]: algorithms")
    model = (home / top["model"]).resolve() if top["model"] else None
    return Site(
        home.resolve(), top["site"], top["server"], top["environment"], top["clients"],
        [(home / folder).resolve() for folder in folders], top["kind"], top["tasks"], top["held_out"], top["world"], model,
        top["threads"], top["shared_test_seed"], refuse,
    )  # fmt: skip


def _texts(values: list[Any], where: str) -> list[str]:
    for value in values:
        if not isinstance(value, str):
            raise FileError(f"{where} expects a list of texts, got {value!r:.60} in it; correct that line")
    return values


def check_membership(site: Site, agreement: Agreement) -> None:
    """Raise unless the agreement has this site, with as many clients."""
    if site.name not in agreement.sites:
        raise FileError(
            f"{site.files.settings} says site = {site.name!r}, and federation.toml has {', '.join(agreement.sites)}; "
            "correct the name, or ask the operator to add the site"
        )
    agreed = len(agreement.clients_of(site.name))
    if site.clients != agreed:
        raise FileError(
            f"{site.files.settings} says clients = {site.clients}, and federation.toml gives {site.name} {agreed}; "
            "make them the same, as everybody has agreed"
        )
