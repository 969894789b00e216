"""The executor of a federation of organisations: exchanges become trips, and what was not answered becomes faults.

The evaluation of a round and the first exchange of the next one are one trip (`look_ahead`).
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import channels
from fedrl.core import shapes
from fedrl.core.admission import ExchangeResult, Late
from fedrl.core.client import WorkResult
from fedrl.core.round import WorkRequest
from fedrl.engines.client_results import ClientResults, collecting_executor, present_slots
from fedrl.engines.driver import ClientExecutor
from fedrl.engines.fault_log import ReportFault
from fedrl.engines.leaves import named, packed
from fedrl.engines.wire import on_host
from fedrl.faults import Faults
from fedrl.flower.messages import needed_leaves
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.answers import MOST_WORDS, Asked
from fedrl.organisations.remote import version_of
from fedrl.organisations.sites import Part, Sites, asked_words
from fedrl.organisations.tables import FileError
from fedrl.organisations.trips import Trip, Work
from fedrl.types import Algorithm, Exchange

MOST_BYTES = 1 << 31  # of one message
Held = tuple[ClientResults, dict[int, int]]  # results and staleness of an exchange, by slot


class SiteExecutor:
    """Plays exchanges of `algorithm`, one seed, with the sites."""

    def __init__(self, sites: Sites, algorithm: Algorithm, faults: Faults, report_fault: ReportFault):
        self.sites, self.agreement, self.algorithm, self.faults = sites, sites.agreement, algorithm, faults
        self.first_trip = True
        self.next: tuple[Exchange, WorkRequest] | None = None
        self.held: dict[tuple[str | int, ...], Held] = {}
        self.shapes: dict[str, WorkResult] = {}
        self.staleness: dict[int, int] = {}
        self.discount = discount_of(self.agreement)
        self.collect = collecting_executor(self._perform, faults, report_fault)

    def execute(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> list[ExchangeResult]:
        results = self.collect(exchange, requests)
        if self.discount is None or requests[0].address[0] != "round":
            return list(results)
        ids = np.asarray(requests[0].cohort.ids)
        ages = np.array([self.staleness.get(slot, 0) for slot in range(len(ids))], np.int32)
        late = Late(jnp.asarray(ages), jnp.asarray(self.discount(jnp.asarray(ages)), jnp.float32))
        return [result._replace(late=late) for result in results]

    def look_ahead(self, exchange: Exchange, requests: Sequence[WorkRequest], /) -> None:
        if int(requests[0].address[1]) < self.agreement.rounds:
            self.next = exchange, requests[0]

    def _perform(
        self, exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult
    ) -> list[ClientResults]:
        (request,) = requests
        if request.address not in self.held:
            self._travel([(exchange, request)] + ([self.next] if self.next else []))
        results, self.staleness = self.held.pop(request.address)
        return [results]

    def _travel(self, wanted: list[tuple[Exchange, WorkRequest]]) -> None:
        """One trip for all of these exchanges."""
        self.next = None
        self._show(*wanted[-1])
        parts: dict[str, list[Part]] = {}
        for place, (exchange, request) in enumerate(wanted):
            for site, part in self._parts(place, exchange, request).items():
                parts.setdefault(site, []).append(part)
        for site, of_site in parts.items():
            _check_size(site, of_site)
        asked = [len(present_slots(request)) for _, request in wanted]
        waited = set(self.sites.keys.values()) if self.first_trip else set(self.sites.known)
        trip = Trip(self.sites, Work(parts, asked), waited, self.faults)
        trip.play()
        self.first_trip = False
        for (_, request), results, staleness in zip(wanted, trip.results, trip.staleness, strict=True):
            self.held[request.address] = results, staleness

    def _parts(self, place: int, exchange: Exchange, request: WorkRequest) -> dict[str, Part]:
        ids, slots = np.asarray(request.cohort.ids).tolist(), present_slots(request)
        leaves = needed_leaves(exchange.send, request.server) | named("cohort", request.cohort)
        arrays = {path: (on_host(leaf), packed(leaf)) for path, leaf in leaves.items()}
        if exchange.name not in self.shapes:
            self.shapes[exchange.name] = shapes.of_work(exchange, request)
        counted = np.asarray(jax.tree.leaves(request.clients.memory) or [[0] * len(ids)])[0].tolist()
        round = int(request.address[1]) if request.address[0] == "round" else 0
        version = version_of(self.algorithm, exchange.name, round)
        by_site: dict[str, list[int]] = {}
        for slot in slots:
            by_site.setdefault(self.agreement.site_of(ids[slot]), []).append(slot)
        return {
            site: Part(
                place,
                Asked(
                    exchange.name, request.address, mine, [ids[i] for i in mine], [counted[i] for i in mine], version,
                    self.shapes[exchange.name],
                ),
                arrays,
            )
            for site, mine in by_site.items()
        }  # fmt: skip

    def _show(self, exchange: Exchange, request: WorkRequest) -> None:
        round = int(request.address[1]) + 1 if request.address[0] == "round" else self.sites.status.status.round
        self.sites.status.exchange(round, exchange.name)


def site_executor(sites: Sites, algorithm: Algorithm, faults: Faults, report_fault: ReportFault) -> ClientExecutor:
    one = SiteExecutor(sites, algorithm, faults, report_fault)
    return ClientExecutor(one.execute, look_ahead=one.look_ahead)


def discount_of(agreement: Agreement) -> Callable[[Any], Any] | None:
    """How late answers are weighted; None if they are dropped."""
    late = agreement.rules.late
    if late == "drop":
        return None
    module, colon, name = late.partition(":")
    if not colon:
        return channels.inverse
    try:
        function: Callable[[Any], Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise FileError(f"federation.toml [rules]: late = {late!r} cannot be imported ({error}); correct it") from error
    ages = jnp.arange(3, dtype=jnp.int32)
    factors = np.asarray(function(ages), np.float32)
    if factors.shape != (3,) or factors[0] != 1:
        raise FileError(
            f"federation.toml [rules]: late = {late!r} makes {factors.tolist()} of the staleness [0, 1, 2]; it must give a "
            "factor for each, and 1 for 0"
        )
    return function


def _check_size(site: str, parts: list[Part]) -> None:
    """Flower cuts arrays into pieces of 5 MiB, and words not at all."""
    size = sum(len(data) for part in parts for _, data in part.arrays.values())
    if size > MOST_BYTES:
        raise FileError(
            f"the message to site {site} has {size / 1e9:.1f} GB, Flower carries at most {MOST_BYTES / 1e9:.1f}; federate "
            "fewer parameters (adapters of a lower rank, a smaller network)"
        )
    if (words := len(asked_words(parts))) > MOST_WORDS:
        raise FileError(
            f"the message to site {site} lists its clients in {words / 1e6:.1f} MB, Flower carries at most "
            f"{MOST_WORDS / 1e6:.1f} that are not arrays; ask fewer clients per round, or divide the site into several"
        )
