"""The plain engine: one client after the other, each a compiled function of its own. What the others must equal.

Slow and simple on purpose: it is the specification of the fast engines, and what a client alone on its machine does.
"""

from functools import partial

import numpy as np

from fedrl.arguments import checked
from fedrl.core.client import WorkResult
from fedrl.core.round import WorkRequest
from fedrl.engines.client_work import ClientWork, client_work
from fedrl.engines.collecting import Answers, collected, raised, slots_asked
from fedrl.engines.driver import ClientExecutor, driven
from fedrl.engines.engine import Engine, refuse_deadline
from fedrl.engines.fault_log import Tell
from fedrl.faults import ClientFault, Faults
from fedrl.rollouts import host
from fedrl.trees import row
from fedrl.types import Exchange


@checked
def one_at_a_time() -> Engine:
    return driven(_in_this_process)


def _in_this_process(exchanges: tuple[Exchange, ...], faults: Faults, tell: Tell) -> ClientExecutor:
    refuse_deadline("one_at_a_time", faults)
    work = {exchange.name: client_work(exchange) for exchange in exchanges}

    def perform(exchange: Exchange, request: WorkRequest) -> Answers:
        one = partial(_one, work[exchange.name], exchange.name, request, faults)
        return {slot: one(slot) for slot in slots_asked(request)}

    return ClientExecutor(
        collected(lambda exchange, requests, _: [perform(exchange, request) for request in requests], faults, tell),
        host.close_all,
    )


def _one(work: ClientWork, exchange: str, request: WorkRequest, faults: Faults, slot: int) -> WorkResult | ClientFault:
    client = row(request.clients, slot)
    try:
        return work(request.server, client, request.cohort, np.int32(slot), request.key)
    except Exception as error:
        fault = raised(error, int(client.id), exchange)
        if faults.leaves_out:
            return fault
        raise
