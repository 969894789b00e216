"""The plain engine: one client after the other, each a compiled function of its own. What the others must equal.

Slow and simple on purpose: it is the specification of the fast engines, and what a client alone on its machine does.
"""

from typing import Any

import numpy as np

from fedrl.arguments import checked
from fedrl.engines.client_work import client_work
from fedrl.engines.driver import Crew, driven
from fedrl.engines.engine import Engine, refuse_deadline
from fedrl.engines.gathering import Answers, Asked, of_seeds, raised
from fedrl.faults import Faults
from fedrl.rollouts import host
from fedrl.trees import row
from fedrl.types import Exchange


@checked
def one_at_a_time() -> Engine:
    return driven(_alone)


def _alone(exchanges: tuple[Exchange, ...], faults: Faults) -> Crew:
    refuse_deadline("one_at_a_time", faults)
    work = {exchange.name: client_work(exchange) for exchange in exchanges}

    def perform(exchange: Exchange, asked: Asked) -> Answers:
        return {slot: one(exchange, asked, slot) for slot in asked.slots()}

    def one(exchange: Exchange, asked: Asked, slot: int) -> Any:
        client = row(asked.rows, slot)
        try:
            return work[exchange.name](asked.server, client, asked.cohort, np.int32(slot), asked.key)
        except Exception as error:
            fault = raised(error, int(client.id), exchange.name)
            if faults.leaves_out:
                return fault
            raise

    return Crew(of_seeds(perform), host.close_all)
