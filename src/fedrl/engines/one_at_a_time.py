"""The plain engine: one client after the other, each a compiled function of its own. What the others must equal.

Slow and simple on purpose: it is the specification of the fast engines, and what a client alone on its machine does.
"""

from collections.abc import Sequence

import numpy as np

from fedrl.engines.client_work import client_work
from fedrl.engines.driver import Answer, Asked, Crew, driven, stacked, unstacked
from fedrl.engines.engine import Engine
from fedrl.rollouts import host
from fedrl.types import Exchange


def one_at_a_time() -> Engine:
    return driven(_alone)


def _alone(exchanges: tuple[Exchange, ...]) -> Crew:
    work = {exchange.name: client_work(exchange) for exchange in exchanges}

    def one(exchange: Exchange, asked: Asked) -> Answer:
        do = work[exchange.name]
        rows = enumerate(unstacked(asked.rows))
        return stacked([do(asked.server, row, asked.cohort, np.int32(slot), asked.key) for slot, row in rows])

    def perform(exchange: Exchange, seeds: Sequence[Asked]) -> list[Answer]:
        return [one(exchange, asked) for asked in seeds]

    return Crew(perform, host.close_all)
