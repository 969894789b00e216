"""The work of a site's own clients: what `federation join` keeps ready between messages."""

import hashlib
import json
import logging
from typing import Any, NamedTuple

import jax
import numpy as np

from fedrl import keys
from fedrl.core.admission import all_finite
from fedrl.core.client import WorkResult
from fedrl.engines import leaves
from fedrl.engines.client_work import ClientWork, client_work
from fedrl.engines.leaves import Leaves, Unexpected
from fedrl.environments.errors import EnvironmentFailed, TrainingDiverged
from fedrl.environments.protocol import Host
from fedrl.federations.federation import Federation, Method
from fedrl.organisations import environments, parts, remote, secret
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.memory import Store
from fedrl.organisations.site import Site
from fedrl.organisations.tables import FileError
from fedrl.records.policy_file import name_of
from fedrl.rollouts import host
from fedrl.trees import Tree, compiled_row, zeros_of
from fedrl.types import Algorithm, Clients

LOG = logging.getLogger(__name__)


class Item(NamedTuple):
    """Some clients' work in one exchange, as the server asks for it."""

    exchange: str
    address: tuple[str | int, ...]  # of the exchange's randomness: ("round", 3, "train")
    slots: list[int]  # places of this site's clients in the cohort
    clients: list[int]
    counted: list[int]  # the version of each client's memory that the server has counted
    version: int  # of the memories after this exchange

    @staticmethod
    def of(plain: dict[str, Any]) -> "Item":
        return Item(**plain | {"address": tuple(plain["address"])})


class Failure(NamedTuple):
    """Why a client's work could not be done."""

    kind: str  # "raised", "memory", "refused"
    text: str


class SiteWork:
    """Does the work of the clients of `site`, and keeps what they remember."""

    def __init__(self, site: Site, agreement: Agreement):
        self.site, self.agreement = site, agreement
        self.own = agreement.clients_of(site.name)
        self.secret = secret.read(site)
        federation = own_federation(site, agreement)
        built = parts.of(agreement, federation, model=site.model, threads=site.model_threads)
        self.algorithm = built.method(built.federation)
        parts.check(self.algorithm)
        refuse(site, agreement, built.method, self.algorithm)
        evaluation = built.evaluation(self.algorithm, built.federation)
        self.server_like = zeros_of(jax.eval_shape(self.algorithm.init, keys.of_seed(0)))
        self.remembers = remote.remembers(self.algorithm)
        self.federation, self.exchanges = built.federation, parts.exchanges_of(self.algorithm, evaluation)
        self.programs: dict[str, ClientWork] = {}
        self._rows = jax.jit(self.federation.rows)
        self.first: dict[str, Clients] = {}  # by run: the clients as they begin

    def check(self, items: list[Item]) -> None:
        """Raise a sentence for work that is not this site's."""
        for item in items:
            if item.exchange not in self.exchanges:
                raise FileError(
                    f"{self.site.name}: there is no exchange {item.exchange!r:.40}; install the same fedrl on both sides"
                )
            if others := [client for client in item.clients if type(client) is not int or client not in self.own]:
                raise FileError(
                    f"{self.site.name} does the work of clients {_range(self.own)}, not of client {others[0]!r:.40}"
                )

    def do(self, run: str, item: Item, sent: Leaves, content: bytes) -> dict[int, WorkResult | Failure]:
        """The result of each client, by its number. `content` is a digest of all that was asked."""
        exchange = self.exchanges[item.exchange]
        server = leaves.tree(sent, "server", self.server_like, partly=True)
        cohort_like = zeros_of(jax.eval_shape(exchange.choose, self.server_like, keys.of_seed(0)))
        cohort = leaves.tree(sent, "cohort", cohort_like)
        if np.asarray(cohort.ids)[item.slots].tolist() != item.clients:
            raise FileError(
                f"exchange {item.exchange!r}: slots {item.slots} of the cohort are not clients {item.clients}"
            )
        server, cohort = jax.device_put((server, cohort))
        rows = self._rows(self.federation.shared(), self.begun(run), cohort.ids)
        results: dict[int, WorkResult | Failure] = {}
        for slot, client, counted in zip(item.slots, item.clients, item.counted, strict=True):
            try:
                own = compiled_row(rows, slot)
                if self.remembers:
                    own = own._replace(memory=self.memory(run, client, counted))
                key = self.secret.key(run, item.address, content + self._remembered(run, client, counted))
                done = self._program(item.exchange)(server, own, cohort, np.int32(slot), key)
                results[client] = self._keep(run, client, counted, item.version, jax.block_until_ready(done))
            except Exception as error:
                LOG.exception("client %d, exchange %r: the work could not be done", client, item.exchange)
                who = f"client {client}: "  # which the sentences about memories say, too
                results[client] = Failure("raised", who + sentence(error).removeprefix(who))
                host.close_all()  # the environment may be in any state
        return results

    def _program(self, exchange: str) -> ClientWork:
        if exchange not in self.programs:
            self.programs[exchange] = client_work(self.exchanges[exchange])
        return self.programs[exchange]

    def begun(self, run: str) -> Clients:
        """All clients as they begin; worlds that a recipe draws come from the agreed seed."""
        if run not in self.first:
            shared = self.federation.shared()
            enrol = jax.jit(lambda key: self.federation.enrol(shared, key, self.algorithm))
            begun = enrol(keys.of_seed(self.agreement.seed))
            if self.remembers:
                begun = begun._replace(memory=enrol(self.secret.memory_key(run)).memory)
            self.first = {run: begun}
        return self.first[run]

    def memory(self, run: str, client: int, counted: int) -> Tree:
        """What a client remembers in the version that the server has counted."""
        first = compiled_row(self.begun(run).memory, client)
        return jax.device_put(self.store(run).load(client, counted, first)) if counted else first

    def _remembered(self, run: str, client: int, counted: int) -> bytes:
        """A digest of what the client remembers, on which its answer depends as on the question."""
        return self.store(run).digest(client, counted) if self.remembers and counted else b""

    def try_environments(self) -> None:
        """Open the environment of every client once: a space that differs is found before any message comes."""
        environment: Any = self.federation.environment
        if self.agreement.tables["model"] is not None:
            from fedrl.organisations import language, language_tasks

            language.try_model(self.agreement, self.site.model, self.site.model_threads)
            language_tasks.try_tasks(self.site, self.agreement, environment.make)
        elif isinstance(environment, Host) and self.site.environment:
            environments.try_all(self.site, self.agreement, environment)

    def _keep(self, run: str, client: int, counted: int, version: int, done: WorkResult) -> WorkResult | Failure:
        """Keep the new memory here; the result that travels has none."""
        if not jax.tree.leaves(done.memory):
            return done
        if not bool(all_finite(done.memory)):
            return Failure("memory", f"client {client}: its memory is not finite")
        self.store(run).save(client, version, jax.device_get(done.memory), counted)
        return done._replace(memory=())

    def store(self, run: str) -> Store:
        return Store(self.site.files.memory / run)


def own_federation(site: Site, agreement: Agreement) -> Federation | None:
    """The federation with this site's environments; None if the recipe's own is to be used."""
    if agreement.tables["model"] is not None:
        from fedrl.organisations import language_tasks

        return language_tasks.at_site(site, agreement)
    if site.kind == "text" or site.tasks or site.held_out or site.world or site.model:
        raise FileError(
            f'{site.files.settings} is for language agents, and federation.toml has no [model]; remove kind = "text", '
            "tasks, held_out, world and model, or agree on a [model]"
        )
    if not site.environment:
        if agreement.tables["recipe"]:
            return None
        raise FileError(f'{site.files.settings} names no environment; add environment = "module:function", or an id')
    return environments.federation(site, agreement)


def refuse(site: Site, agreement: Agreement, method: Method, algorithm: Algorithm) -> None:
    """Raise if site.toml refuses what was agreed, which is `algorithm` as `method` builds it."""
    rules, path = site.refuse, site.files.settings
    names = [(agreement.tables["method"] or {}).get("name", ""), name_of(method)]  # a recipe's has only the second
    for name in (name for name in names if name in rules.algorithms):
        raise FileError(
            f"{path} refuses the algorithm {name}; take part in another federation, or remove it from [refuse]"
        )
    for exchange in (*algorithm.opening, *algorithm.exchanges):
        steps = exchange.local.local_steps
        if rules.largest_local_steps is not None and steps > rules.largest_local_steps:
            raise FileError(
                f"{path} allows {rules.largest_local_steps} local steps, and federation.toml asks for {steps} in exchange "
                f"{exchange.name!r}; agree on fewer, or raise largest_local_steps"
            )
    noise = agreement.privacy.noise if agreement.privacy else 0.0
    if rules.smallest_noise is not None and noise < rules.smallest_noise:
        raise FileError(
            f"{path} wants noise of at least {rules.smallest_noise:g}, and federation.toml has {noise:g}; agree on a larger "
            "[privacy] noise, or lower smallest_noise"
        )


def sentence(error: Exception) -> str:
    """What the server may know of an error. Messages of environments may show data: they stay in the site's log."""
    if isinstance(error, TrainingDiverged | FileError | Unexpected):
        return str(error)
    what = (
        "its environment failed" if isinstance(error, EnvironmentFailed) else f"its work raised {type(error).__name__}"
    )
    return f"{what}; the log at its site says why"


def digest(item: dict[str, Any], arrays: list[list[Any]], blobs: list[bytes]) -> bytes:
    """Of all that was asked: two requests with the same digest have the same answer."""
    hashed = hashlib.sha256(json.dumps([item, arrays]).encode())
    for blob in blobs:
        hashed.update(hashlib.sha256(blob).digest())
    return hashed.digest()


def _range(clients: range) -> str:
    return f"{clients.start} to {clients.stop - 1}" if len(clients) > 1 else str(clients.start)
