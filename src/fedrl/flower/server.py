"""The engine `flower`: a federation of organisations, each at a Flower SuperNode with clients of its own.

Flower only transports the messages (`Grid`, `ClientApp`); cohorts, the order in which uploads are combined and all
randomness are as in every other engine. This is the app that Flower's SuperLink runs; `fedrl.cli.flower` submits it.
"""

import json
import logging
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedrl.core.lock_step import needs_lock_step
from fedrl.engines import cache
from fedrl.engines.driver import engine_of
from fedrl.engines.engine import Engine, Play
from fedrl.experiments import experiment, fault_options, orders
from fedrl.experiments.recipe import RecipeError
from fedrl.faults import STOP, Faults
from fedrl.federations.federation import Federation
from fedrl.flower.executor import Organisations, flower_executor
from fedrl.records import folder as folders
from fedrl.records.log import Row
from fedrl.types import Algorithm, Exchange

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the recipe that the run configuration names, in a folder of this machine."""
    config = context.run_config
    plain = json.loads(str(config["order"]))
    order = orders.from_plain(plain)
    nodes = Organisations(grid, float(config["patience"]))
    say = logging.getLogger("flwr").info

    def callback(arm: str, row: Row, rounds: int) -> None:
        say(
            "%s: round %d of %d%s",
            arm,
            row["round"],
            rounds,
            f", return {row['return']:.4g}" if "return" in row else "",
        )

    with folders.claim(Path(str(config["out"])), order.plain(), bool(config["resume"])) as folder:
        rule = fault_options.from_config(config).faults()
        experiment.run(
            order, folder, of_arm=lambda arm: flower(nodes, plain, arm), callback=callback, warn=say, faults=rule
        )


def flower(nodes: Organisations, order: dict[str, Any], arm: str) -> Engine:
    """The engine for one arm of an order."""
    cache.enable()
    words = {"recipe": order["recipe"], "settings": json.dumps(order["config"]), "arm": arm}

    def build(
        algorithm: Algorithm, federation: Federation, evaluation: Exchange, eval_every: int = 1, rule: Faults = STOP, /
    ) -> Play:
        refuse_lock_step(algorithm)
        engine = engine_of(lambda _, rule, report_fault: flower_executor(nodes, words, rule, report_fault))
        return engine(algorithm, federation, evaluation, eval_every, rule)._replace(most=1)

    return build


def refuse_lock_step(algorithm: Algorithm) -> None:
    for exchange in (*algorithm.opening, *algorithm.exchanges):
        if needs_lock_step(exchange):
            raise RecipeError(
                f"in exchange {exchange.name!r} clients share an environment, or send each other directions, at every step; "
                "organisations are asked once per exchange, so choose another engine"
            )
