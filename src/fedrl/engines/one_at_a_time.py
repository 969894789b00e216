"""The reference engine: one client after the other, each a compiled function of its own.

Slow and simple on purpose: the other engines must give the same bytes as this one.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedrl.arguments import checked
from fedrl.core.client import WorkResult
from fedrl.core.round import WorkRequest
from fedrl.engines.client_results import ClientResults, client_error, collecting_executor, present_slots
from fedrl.engines.client_work import ClientWork, client_work
from fedrl.engines.driver import ClientExecutor, engine_of
from fedrl.engines.engine import Engine, refuse_deadline
from fedrl.engines.fault_log import ReportFault
from fedrl.faults import ClientFault, Faults
from fedrl.rollouts import host
from fedrl.trees import compiled_row
from fedrl.types import Exchange


@checked
def one_at_a_time() -> Engine:
    return engine_of(_in_this_process)


def _in_this_process(exchanges: tuple[Exchange, ...], faults: Faults, report_fault: ReportFault) -> ClientExecutor:
    refuse_deadline("one_at_a_time", faults)
    work = {exchange.name: client_work(exchange) for exchange in exchanges}

    def perform(exchange: Exchange, request: WorkRequest) -> ClientResults:
        work_of = partial(_one_client, work[exchange.name], exchange.name, request, faults)
        return {slot: work_of(slot) for slot in present_slots(request)}

    def perform_all(exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult) -> list[ClientResults]:
        return [perform(exchange, request) for request in requests]

    return ClientExecutor(collecting_executor(perform_all, faults, report_fault), host.close_all)


def _one_client(
    work: ClientWork, exchange: str, request: WorkRequest, faults: Faults, slot: int
) -> WorkResult | ClientFault:
    client = compiled_row(request.clients, slot)
    try:
        return work(request.server, client, request.cohort, np.int32(slot), request.key)
    except Exception as error:
        fault = client_error(error, int(client.id), exchange)
        if faults.leaves_out:
            return fault
        raise
