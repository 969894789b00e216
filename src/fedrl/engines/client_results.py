"""From the result or the fault of each client of a cohort to the stacks that the server receives."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.core import shapes
from fedrl.core.admission import ExchangeResult
from fedrl.core.client import WorkResult
from fedrl.core.round import Executor, WorkRequest
from fedrl.engines.fault_log import ReportFault
from fedrl.engines.wire import on_host
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode, Faults
from fedrl.types import Exchange

ClientResults = dict[int, WorkResult | ClientFault]  # by slot, the place in the cohort


class PerformWork(Protocol):
    """The clients' work in one exchange, per request; `expected` has the shapes of one client's result."""

    def __call__(
        self, exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult, /
    ) -> Sequence[ClientResults]: ...


def present_slots(request: WorkRequest) -> list[int]:
    """The slots of the clients that are to work."""
    slots: list[int] = np.flatnonzero(np.asarray(request.cohort.present)).tolist()
    return slots


def collecting_executor(perform: PerformWork, faults: Faults, report_fault: ReportFault) -> Executor:
    """The executor of engines that return results client by client."""
    expected: dict[str, WorkResult] = {}  # exchange -> shapes of one client's result

    def execute(exchange: Exchange, requests: Sequence[WorkRequest], /) -> list[ExchangeResult]:
        if exchange.name not in expected:
            expected[exchange.name] = shapes.of_work(exchange, requests[0])
        shape = expected[exchange.name]
        return [
            collect(exchange.name, request, results, shape, faults, partial(report_fault, exchange.name, seed))
            for seed, (request, results) in enumerate(zip(requests, perform(exchange, requests, shape), strict=True))
        ]

    return execute


def collect(
    exchange: str,
    request: WorkRequest,
    results: ClientResults,
    expected: WorkResult,
    faults: Faults,
    report_fault: Callable[[int, str], None],
) -> ExchangeResult:
    """The stacks of a cohort. Clients without a result of the `expected` shapes have zeros."""
    ids = np.asarray(request.cohort.ids).tolist()
    codes = np.zeros(len(ids), np.int32)
    zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), expected)
    rows = []
    for slot, client in enumerate(ids):
        result = results.get(slot, zeros)
        if not isinstance(result, ClientFault):
            result = _check_shapes(exchange, client, result, expected)
        if isinstance(result, ClientFault):
            if not faults.leaves_out:
                raise result.error
            report_fault(client, str(result.error))
            codes[slot], result = result.code, zeros
        rows.append(result)
    return ExchangeResult(request.clients, jax.tree.map(_stack, *rows), request.shared_state, jnp.asarray(codes))


def client_error(error: Exception, client: int, exchange: str) -> ClientFault:
    """The fault of a client whose work raised `error`."""
    if not isinstance(error, EnvironmentFailed):  # these name the client themselves
        error.add_note(f"client {client}, exchange {exchange!r}")
    return ClientFault(FaultCode.RAISED, error)


def _check_shapes(exchange: str, client: int, result: WorkResult, expected: WorkResult) -> WorkResult | ClientFault:
    """`result` if its arrays have the expected shapes and dtypes."""
    structure, expected_structure = str(jax.tree.structure(result)), str(jax.tree.structure(expected))
    if structure != expected_structure:
        return _shape_fault(exchange, client, structure, expected_structure)
    for leaf, like in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        if np.shape(leaf) != like.shape or leaf.dtype != like.dtype:
            return _shape_fault(
                exchange, client, f"{leaf.dtype}{list(np.shape(leaf))}", f"{like.dtype}{list(like.shape)}"
            )
    return result


def _shape_fault(exchange: str, client: int, sent: str, expected: str) -> ClientFault:
    text = f"client {client}, exchange {exchange!r}: sent {sent}, expected {expected}; it must run the server's code"
    return ClientFault(FaultCode.SHAPE, EnvironmentFailed(text))


def _stack(*leaves: Any) -> Any:
    """On the host if possible, where it needs no program."""
    leaves = tuple(on_host(x) for x in leaves)
    return jnp.stack(leaves) if any(isinstance(x, jax.Array) for x in leaves) else np.stack(leaves)
