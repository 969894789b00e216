"""The engine `flower`: a federation of organisations, each at a Flower SuperNode with clients of its own.

Flower carries the messages (`Grid`, `ClientApp`) and nothing else; who is asked, in which order answers are combined, and
all randomness are as in every other engine. This is the app that Flower's SuperLink runs; `fedrl.cli.flower` hands it in.
"""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedrl import keys, lock_step
from fedrl.engines import cache
from fedrl.engines.driver import driven
from fedrl.engines.engine import Engine, Play, State
from fedrl.engines.flower_crew import Organisations, crew
from fedrl.federation import Federation
from fedrl.recipes import running
from fedrl.recipes.recipe import RecipeError
from fedrl.records import folder as folders
from fedrl.records.rows import Row
from fedrl.types import Algorithm, Exchange, Metrics

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the recipe that the run's configuration names, in a folder of this machine."""
    asked = context.run_config
    plain = json.loads(str(asked["order"]))
    order = running.order(plain["recipe"], overrides=plain["config"], seed=plain["seed"], seeds=plain["seeds"])
    nodes = Organisations(grid, float(asked["patience"]))
    say = logging.getLogger("flwr").info

    def watch(arm: str, row: Row, rounds: int) -> None:
        say(
            "%s: round %d of %d%s",
            arm,
            row["round"],
            rounds,
            f", return {row['return']:.4g}" if "return" in row else "",
        )

    with folders.claim(Path(str(asked["out"])), order.plain(), bool(asked["resume"])) as folder:
        running.run(order, folder, of_arm=lambda arm: flower(nodes, plain, arm), watch=watch, warn=say)


def flower(nodes: Organisations, order: dict[str, Any], arm: str) -> Engine:
    """The engine of one arm of a recipe's order."""
    cache.enable()
    words = {"recipe": order["recipe"], "settings": json.dumps(order["config"]), "arm": arm}

    def build(algorithm: Algorithm, federation: Federation, measure: Exchange, every: int = 1) -> Play:
        refuse_lock_step(algorithm)
        playing: list[keys.Key] = []  # the key of the seed that is being played: nodes draw its worlds from it
        play = driven(lambda _: crew(nodes, words, lambda: playing[0]))(algorithm, federation, measure, every)

        def each(seeds: Sequence[keys.Key], function: Callable[[int], Any]) -> Any:
            parts = []
            for i, key in enumerate(seeds):
                playing[:] = [key]
                parts.append(function(i))
            return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)

        def init(seeds: Sequence[int]) -> tuple[State, Metrics]:
            return each([keys.of_seed(seed) for seed in seeds], lambda i: play.init(seeds[i : i + 1]))

        def advance(state: State, first: int, rounds: int) -> tuple[State, Metrics]:
            return each(list(state.key), lambda i: play.advance(_only(state, i), first, rounds))

        def look(state: State) -> Metrics:
            return each(list(state.key), lambda i: play.measure(_only(state, i)))

        return Play(init, advance, look, most=1)

    return build


def refuse_lock_step(algorithm: Algorithm) -> None:
    for exchange in (*algorithm.opening, *algorithm.exchanges):
        if lock_step.needed(exchange):
            raise RecipeError(
                f"in exchange {exchange.name!r} clients meet, or talk, before every step; organisations are asked once a "
                "round, so choose another engine"
            )


def _only(state: State, i: int) -> State:
    return jax.tree.map(lambda x: x[i : i + 1], state)
