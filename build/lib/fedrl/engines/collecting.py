"""From what each client of a cohort came back with, or how it failed, to the stacks that the server receives."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.core import shapes
from fedrl.core.admission import ExchangeResult
from fedrl.core.client import WorkResult
from fedrl.core.round import Executor, WorkRequest
from fedrl.engines.fault_log import Tell
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode, Faults
from fedrl.types import Exchange

Answers = dict[int, WorkResult | ClientFault]  # by slot: what the client's work came to, or how the client failed
Perform = Callable[[Exchange, Sequence[WorkRequest], WorkResult], Sequence[Answers]]  # the last: shapes of one answer


def slots_asked(request: WorkRequest) -> list[int]:
    """The places in the cohort of those that are asked."""
    return np.flatnonzero(np.asarray(request.cohort.present)).tolist()


def collected(perform: Perform, faults: Faults, tell: Tell) -> Executor:
    """The executor of engines that bring answers client by client."""
    expected: dict[str, WorkResult] = {}  # exchange -> shapes of one client's answer

    def execute(exchange: Exchange, requests: Sequence[WorkRequest], /) -> list[ExchangeResult]:
        if exchange.name not in expected:
            expected[exchange.name] = shapes.of_work(exchange, requests[0])
        answers = perform(exchange, requests, expected[exchange.name])
        return [
            collect(exchange.name, request, answer, expected[exchange.name], faults, partial(tell, exchange.name, seed))
            for seed, (request, answer) in enumerate(zip(requests, answers, strict=True))
        ]

    return execute


def collect(
    exchange: str,
    request: WorkRequest,
    answers: Answers,
    expected: WorkResult,
    faults: Faults,
    tell: Callable[[int, str], None],
) -> ExchangeResult:
    """The stacks of a cohort. Zeros stand for clients that gave no answer of the `expected` shapes."""
    ids = np.asarray(request.cohort.ids).tolist()
    why = np.zeros(len(ids), np.int32)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), expected)
    rows = []
    for slot, client in enumerate(ids):
        answer = answers.get(slot, nothing)
        if not isinstance(answer, ClientFault):
            answer = _fitting(exchange, client, answer, expected)
        if isinstance(answer, ClientFault):
            if not faults.leaves_out:
                raise answer.error
            tell(client, str(answer.error))
            why[slot], answer = answer.why, nothing
        rows.append(answer)
    return ExchangeResult(request.clients, jax.tree.map(_stack, *rows), request.shared_state, jnp.asarray(why))


def raised(error: Exception, client: int, exchange: str) -> ClientFault:
    """The fault of a client in whose work `error` came up."""
    if not isinstance(error, EnvironmentFailed):  # these name the client themselves
        error.add_note(f"client {client}, exchange {exchange!r}")
    return ClientFault(FaultCode.RAISED, error)


def _fitting(exchange: str, client: int, answer: WorkResult, expected: WorkResult) -> WorkResult | ClientFault:
    """`answer` if its arrays are of the right shapes and dtypes."""
    came, wanted = str(jax.tree.structure(answer)), str(jax.tree.structure(expected))
    if came != wanted:
        return _misshapen(exchange, client, came, wanted)
    for one, other in zip(jax.tree.leaves(answer), jax.tree.leaves(expected), strict=True):
        if np.shape(one) != other.shape or one.dtype != other.dtype:
            return _misshapen(
                exchange, client, f"{one.dtype}{list(np.shape(one))}", f"{other.dtype}{list(other.shape)}"
            )
    return answer


def _misshapen(exchange: str, client: int, came: str, wanted: str) -> ClientFault:
    text = f"client {client}, exchange {exchange!r}: sent {came}, expected {wanted}; it must run the server's code"
    return ClientFault(FaultCode.SHAPE, EnvironmentFailed(text))


def _stack(*leaves: Any) -> Any:
    return jnp.stack(leaves) if any(isinstance(x, jax.Array) for x in leaves) else np.stack(leaves)
