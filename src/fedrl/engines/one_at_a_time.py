"""The plain engine: one client after the other, each a compiled function of its own. What the others must equal.

Slow and simple on purpose: it is the specification of the fast engines, and what a client alone on its machine does.
"""

import numpy as np
from jax import Array

from fedrl.engines.client_work import client_work
from fedrl.engines.driver import Crew, driven, stacked, unstacked
from fedrl.engines.engine import Engine
from fedrl.keys import Key
from fedrl.rollouts import host
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Server


def one_at_a_time() -> Engine:
    return driven(_alone)


def _alone(exchanges: tuple[Exchange, ...]) -> Crew:
    work = {exchange.name: client_work(exchange) for exchange in exchanges}

    def perform(exchange: Exchange, server: Server, rows: Client, cohort: Cohort, key: Key) -> tuple[Tree, Tree, Array]:
        return stacked(
            [work[exchange.name](server, row, cohort, np.int32(slot), key) for slot, row in enumerate(unstacked(rows))]
        )

    return Crew(perform, host.close_all)
