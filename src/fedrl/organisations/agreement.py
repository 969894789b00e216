"""`federation.toml`: what everybody has agreed on. The same file lies at the server and at every site.

What is plain is read and checked here; the tables [method], [learner], [policy], [selection] and so on stay tables until
`parts` builds them, which needs JAX.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedrl.organisations import agreed_spaces, tables, versions
from fedrl.organisations.tables import FileError, Key, Table, fields

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"  # of a site: also that of its folder and of its key's file
RESERVED = ("server", "ca")  # the other folders
MANY = 2**31 - 1  # the largest of JAX's whole numbers
LEAST_DEADLINE = 10.0  # seconds: Flower alone takes about six for a trip
TOP = {
    "name": Key((str,), "federation"),
    "rounds": Key((int,), least=1, most=MANY),
    "seed": Key((int,), 0, 0, 2**32 - 1),
    "gamma": Key((float,), 0.99, 1e-9, 1.0),
    "max_episode_steps": Key((int,), 0, 0, MANY),
    "episodes": Key((int,), 10, 1, MANY),
    "eval_every": Key((int,), 1, 1, MANY),
    "rescale": Key((bool,), False),
    "deterministic": Key((bool,), False),
    "sites": Key((dict,)),
    "rules": Key((dict,), {}),
    "privacy": Key((dict,), None),
    "spaces": Key((dict,), None),
    "recipe": Key((dict,), None),
    "method": Key((dict,), None),
    "learner": Key((dict,), None),
    "policy": Key((dict,), None),
    "selection": Key((dict,), None),
    "combine": Key((dict,), None),
    "tasks": Key((dict,), None),
    "model": Key((dict,), None),
    "versions": Key((dict,), {}),
}
RULES = {
    "deadline": Key((float,), 300.0, LEAST_DEADLINE, 1e7),
    "quorum": Key((int, float), 1, 0, MANY),
    "patience": Key((float,), 3600.0, 0, 1e9),
    "largest_norm": Key((float,), 100.0, 0, 1e30),
    "largest_number": Key((float,), 1e9, 0, 1e38),
    "late": Key((str,), "drop"),
}
LONGEST = 80  # characters of a line in a message
LATE = r"drop|inverse|[\w.]+:\w+"
VERSIONS = {name: Key((str,), "") for name in versions.NAMES}
SITE = {"clients": Key((int,), 1, 1, 10_000), "weight": Key((float,), 1.0, 1e-9, 1e9)}
PRIVACY = {"clip": Key((float,), least=1e-12, most=1e9), "noise": Key((float,), 0.0, 0, 1e9)}


class Rules(NamedTuple):
    """When an answer counts, and when the run goes on without one."""

    deadline: float  # seconds that a site has for one trip
    quorum: int | float  # clients that must answer: a count, or as a float a share of those asked
    patience: float  # seconds to wait for a quorum before the run stops
    largest_norm: float  # of the part of an upload that moves parameters
    largest_number: float  # that an answer may contain
    late: str  # "drop", or how late answers are weighted


class Privacy(NamedTuple):
    clip: float
    noise: float  # as a multiple of `clip`


class Member(NamedTuple):
    """A site, as all others see it."""

    clients: range  # their numbers in the federation
    weight: float  # q of each


class Agreement(NamedTuple):
    name: str
    rounds: int
    seed: int
    gamma: float
    max_episode_steps: int
    episodes: int  # per client in every evaluation
    eval_every: int
    rescale: bool
    deterministic: bool  # evaluate the most likely actions
    sites: dict[str, Member]  # in the order of the file, which numbers the clients
    rules: Rules
    privacy: Privacy | None
    spaces: Table | None  # "observations" and "actions", as `environments.spaces` describes them
    tables: dict[str, Table | None]  # those that `parts` builds
    versions: dict[str, str]  # of packages; those that it does not name may be any
    text: str  # the file itself

    @property
    def digest(self) -> str:
        """Two files with the same digest are the same file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def num_clients(self) -> int:
        """How many clients there are."""
        return sum(len(site.clients) for site in self.sites.values())

    def clients_of(self, site: str) -> range:
        return self.sites[site].clients

    def site_of(self, client: int) -> str:
        return next(name for name, site in self.sites.items() if client in site.clients)


def read(path: Path) -> Agreement:
    return parse(tables.read_text(path), str(path))


def parse(text: str, where: str = "federation.toml") -> Agreement:
    """The agreement in `text`; `where` names it in messages."""
    top = fields(tables.parse(text, where), TOP, where)
    if top["method"] is None and top["recipe"] is None:
        raise FileError(f'{where} has no [method]; add one, such as name = "fedavg", or a [recipe] that everybody has')
    plain = {name: top[name] for name in Agreement._fields[:9]}
    built = ("recipe", "method", "learner", "policy", "selection", "combine", "tasks", "model")
    privacy = None if top["privacy"] is None else Privacy(**fields(top["privacy"], PRIVACY, f"{where} [privacy]"))
    sites = _sites(top["sites"], where)
    needed = fields(top["versions"], VERSIONS, f"{where} [versions]")
    return Agreement(
        **plain,
        sites=sites,
        rules=_rules(top["rules"], sum(len(site.clients) for site in sites.values()), where),
        privacy=privacy,
        spaces=None if top["spaces"] is None else agreed_spaces.read(top["spaces"], f"{where} [spaces]"),
        tables={name: top[name] for name in built},
        versions={name: number for name, number in needed.items() if number},
        text=text,
    )


def difference(here: Agreement, there: str) -> str:
    """In words, where the server's federation.toml differs from the one here: for the sentence at the site."""
    own, other = here.text.splitlines(), there.splitlines()
    for number, (mine, theirs) in enumerate(zip(own, other, strict=False), start=1):
        if mine != theirs:
            return f"line {number} is {_short(mine, theirs)} here and {_short(theirs, mine)} there"
    return f"{len(own)} lines here, {len(other)} there"


def _short(line: str, other: str) -> str:
    """A line without its comment, unless that is all that differs."""
    plain, others = line.partition("#")[0].split(), other.partition("#")[0].split()
    words = " ".join(plain if plain != others else line.split())
    return repr(words if len(words) <= LONGEST else f"{words[:LONGEST]} …")


def _sites(table: Table, where: str) -> dict[str, Member]:
    sites: dict[str, Member] = {}
    first = 0
    for name, value in table.items():
        check_name(name, list(sites), f"{where} [sites]")
        given = fields({"clients": value} if not isinstance(value, dict) else value, SITE, f"{where} [sites] {name}")
        sites[name] = Member(range(first, first + given["clients"]), float(given["weight"]))
        first += given["clients"]
    if not sites:
        raise FileError(f"{where} [sites] is empty; name every site and its number of clients, such as ward7 = 1")
    return sites


def check_name(name: str, others: Sequence[str], where: str) -> None:
    """Raise unless a site can be called `name` beside these `others`."""
    if not re.fullmatch(NAME, name) or name.lower() in RESERVED:
        raise FileError(
            f"{where}: {name!r:.80} cannot name a site; begin with a letter or digit, go on with letters, digits, - and _ "
            f"(64 at most), and leave {' and '.join(RESERVED)} out, such as ward7"
        )
    if same := [other for other in others if other.lower() == name.lower()]:
        raise FileError(
            f"{where}: {name!r} is the name of a second site ({same[0]!r} is there, and capitals do not count); "
            "give every site a name of its own"
        )


def _rules(table: Table, clients: int, where: str) -> Rules:
    rules = Rules(**fields(table, RULES, f"{where} [rules]"))
    quorum = rules.quorum
    if not (0 < quorum <= 1 if isinstance(quorum, float) else quorum >= 1):
        raise FileError(
            f"{where} [rules]: quorum must be a number of clients (3) or a share of those asked (0.5), got {quorum}"
        )
    if quorum > clients:
        raise FileError(
            f"{where} [rules]: quorum is {quorum}, and [sites] has {clients} clients; lower it, or write 1.0 for all"
        )
    if not re.fullmatch(LATE, rules.late):
        raise FileError(
            f'{where} [rules]: late must be "drop", "inverse" or "module:function", got {rules.late!r:.60}; correct it'
        )
    return rules
