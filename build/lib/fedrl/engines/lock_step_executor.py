"""Exchanges in lock step on engines without a program of the whole federation: in this process, one client after the
other, since they wait for each other anyway.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.core import lock_step
from fedrl.core.admission import ExchangeResult
from fedrl.core.lock_step import CohortLoops
from fedrl.core.round import Executor, WorkRequest
from fedrl.engines.collecting import raised
from fedrl.engines.fault_log import Tell
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, Faults
from fedrl.trees import Tree, stacked, unstacked
from fedrl.types import Exchange


def lock_step_executors(exchanges: tuple[Exchange, ...], faults: Faults, tell: Tell) -> dict[str, Executor]:
    """An executor for every exchange that needs one."""
    return {e.name: _lock_step_executor(e, faults, tell) for e in exchanges if lock_step.needed(e)}


def _lock_step_executor(exchange: Exchange, faults: Faults, tell: Tell) -> Executor:
    """The clients' part of `exchange`. One whose own simulator raises is left out from then on, where the rule says so."""
    if faults.deadline is not None:
        raise ValueError(
            f"exchange {exchange.name!r} goes step by step, all clients in this process, where no deadline can be kept; "
            f"drop deadline={faults.deadline:g}, or give the simulators one: fedrl.pettingzoo(…, deadline=60)"
        )
    acting = _Acting(exchange.name, faults)
    work = lock_step.lock_step(exchange, CohortLoops(_each, jax.jit, _repeat, acting.on_host))

    def one_seed(request: WorkRequest, tell: Callable[[int, str], None]) -> ExchangeResult:
        acting.begin(np.asarray(request.cohort.ids).tolist(), tell)
        result = work(request)
        return result._replace(why=acting.why(result.why))

    def execute(exchange: Exchange, requests: Sequence[WorkRequest], /) -> list[ExchangeResult]:
        return [one_seed(request, partial(tell, exchange.name, seed)) for seed, request in enumerate(requests)]

    return execute


class _Acting:
    """Acting on simulators, and who has failed at it in the exchange under way."""

    def __init__(self, exchange: str, faults: Faults):
        self.exchange, self.faults = exchange, faults
        self.blank: Tree = None  # stands for the trajectory of a client that failed
        self.begin([], lambda client, text: None)

    def begin(self, ids: list[int], tell: Callable[[int, str], None]) -> None:
        self.ids, self.tell = ids, tell
        self.failed: dict[int, ClientFault] = {}  # by slot

    def on_host(self, function: Callable) -> Callable:
        def each(common: Any, stack: Tree, sound: Array) -> tuple[Tree, Array]:
            going = np.asarray(sound)
            rows = [self._one(function, common, row, i) if going[i] else None for i, row in enumerate(unstacked(stack))]
            came = next((row for row in rows if row is not None), None)
            if came is None and self.blank is None:
                raise next(
                    (fault.error for fault in self.failed.values()), EnvironmentFailed("there is no client to ask")
                )
            self.blank = self.blank if came is None else jax.tree.map(np.zeros_like, came)
            trajectory = stacked([self.blank if row is None else row for row in rows])
            return trajectory, jnp.asarray([row is not None for row in rows])

        return each

    def _one(self, function: Callable, common: Any, row: Tree, slot: int) -> Tree | None:
        try:
            return function(common, row)
        except Exception as error:
            self.failed[slot] = raised(error, self.ids[slot], self.exchange)
            if not self.faults.leaves_out:
                raise
            self.tell(self.ids[slot], str(error))
            return None

    def why(self, found: Array) -> Array:
        for slot, fault in self.failed.items():
            found = found.at[slot].set(int(fault.why))
        return found


def _each(function: Callable) -> Callable:
    return jax.jit(lambda common, stack: jax.lax.map(lambda row: function(common, row), stack))


def _repeat(count: int, body: Callable, carry: Tree) -> Tree:
    for y in range(count):
        carry = body(jnp.int32(y), carry)
    return carry
