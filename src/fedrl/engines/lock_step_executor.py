"""Exchanges in lock step on engines that have no program of the whole federation: in this process, one client after the
other, because they wait for each other anyway.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.core.admission import ExchangeResult
from fedrl.core.lock_step import CohortLoops, OfClient, OfCohort, OnHost, lock_step, needs_lock_step
from fedrl.core.round import Executor, WorkRequest
from fedrl.engines.client_results import client_error
from fedrl.engines.fault_log import ReportFault
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, Faults
from fedrl.trees import Tree, stacked, unstacked
from fedrl.types import Exchange


def lock_step_executors(
    exchanges: tuple[Exchange, ...], faults: Faults, report_fault: ReportFault
) -> dict[str, Executor]:
    """An executor for every exchange that needs one, by its name."""
    return {e.name: _lock_step_executor(e, faults, report_fault) for e in exchanges if needs_lock_step(e)}


def _lock_step_executor(exchange: Exchange, faults: Faults, report_fault: ReportFault) -> Executor:
    """The clients' part of `exchange`. Under `leave_out`, a client whose simulator raises is left out from then on."""
    if faults.deadline is not None:
        raise ValueError(
            f"exchange {exchange.name!r} goes step by step, all clients in this process, where no deadline can be kept; "
            f"drop deadline={faults.deadline:g}, or give the simulators one: fedrl.pettingzoo(…, deadline=60)"
        )
    simulators = _Simulators(exchange.name, faults)
    work = lock_step(exchange, CohortLoops(_each, jax.jit, _repeat, simulators.on_host))

    def one_seed(request: WorkRequest, report_fault: Callable[[int, str], None]) -> ExchangeResult:
        simulators.begin(np.asarray(request.cohort.ids).tolist(), report_fault)
        result = work(request)
        return result._replace(fault_codes=simulators.add_codes(result.fault_codes))

    def execute(exchange: Exchange, requests: Sequence[WorkRequest], /) -> list[ExchangeResult]:
        return [one_seed(request, partial(report_fault, exchange.name, seed)) for seed, request in enumerate(requests)]

    return execute


class _Simulators:
    """Clients acting on simulators, and the faults of those that failed in the current exchange."""

    def __init__(self, exchange: str, faults: Faults):
        self.exchange, self.faults = exchange, faults
        self.zeros: Tree = None  # in place of the trajectory of a client that failed
        self.begin([], lambda client, text: None)

    def begin(self, ids: list[int], report_fault: Callable[[int, str], None]) -> None:
        self.ids, self.report_fault = ids, report_fault
        self.failed: dict[int, ClientFault] = {}  # by slot

    def on_host(self, function: OfClient) -> OnHost:
        def each(common: Any, stack: Tree, valid: Array) -> tuple[Tree, Array]:
            is_valid = np.asarray(valid)
            rows = [
                self._one(function, common, row, i) if is_valid[i] else None for i, row in enumerate(unstacked(stack))
            ]
            first = next((row for row in rows if row is not None), None)
            if first is None and self.zeros is None:
                errors = (fault.error for fault in self.failed.values())
                raise next(errors, EnvironmentFailed("there is no client to ask"))
            self.zeros = self.zeros if first is None else jax.tree.map(np.zeros_like, first)
            trajectories = stacked([self.zeros if row is None else row for row in rows])
            return trajectories, jnp.asarray([row is not None for row in rows])

        return each

    def _one(self, function: OfClient, common: Any, row: Tree, slot: int) -> Tree | None:
        try:
            return function(common, row)
        except Exception as error:
            self.failed[slot] = client_error(error, self.ids[slot], self.exchange)
            if not self.faults.leaves_out:
                raise
            self.report_fault(self.ids[slot], str(error))
            return None

    def add_codes(self, codes: Array) -> Array:
        """`codes` with those of clients that failed."""
        for slot, fault in self.failed.items():
            codes = codes.at[slot].set(int(fault.code))
        return codes


def _each(function: OfClient) -> OfCohort:
    return jax.jit(lambda common, stack: jax.lax.map(lambda row: function(common, row), stack))


def _repeat(count: int, body: Callable[[Array, Any], Any], carry: Any) -> Any:
    for y in range(count):
        carry = body(jnp.int32(y), carry)
    return carry
