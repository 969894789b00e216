"""Run a recipe in a folder: every arm in turn, then its verdict and its figures. Resumable at any instant."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from fedrl.engines.engine import Engine
from fedrl.environments.errors import TrainingDiverged
from fedrl.evaluation import default_evaluation
from fedrl.experiments import find, outcomes
from fedrl.experiments.headline import headline
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import Arm, Claim, RecipeError
from fedrl.faults import STOP, Faults
from fedrl.plots import curves
from fedrl.records import folder as folders
from fedrl.records import log, returns_file
from fedrl.records.log import ArmCallback
from fedrl.records.rows import diverged
from fedrl.records.tensors import write_atomically
from fedrl.training import train


def check(order: Order, engine: Engine | None = None, faults: Faults = STOP) -> list[str]:
    """The names of the arms; raises ValueError for anything that can be found wrong before the first round."""
    arms = find.recipe(order.recipe).build(order.config)
    for name, arm in arms.items():
        if arm.rounds < 1 or arm.eval_every < 1:
            raise RecipeError(
                f"{name} needs at least 1 round, got {arm.rounds} (evaluated every {arm.eval_every}); raise it"
            )
        if order.ending.of(arm).early and arm.snapshot:
            raise RecipeError(
                f"{name} saves its state in every evaluated round, for claims about all of them, so it does not end early; "
                "leave out --stop-at and --patience"
            )
        algorithm = arm.method(arm.federation)
        evaluation = (arm.evaluation or default_evaluation(arm.federation))(algorithm, arm.federation)
        (engine or arm.engine)(algorithm, arm.federation, evaluation, arm.eval_every, faults).close()
    return list(arms)


def run(
    order: Order,
    folder: folders.RunFolder,
    *,
    engine: Engine | None = None,
    of_arm: Callable[[str], Engine] | None = None,
    callback: ArmCallback | None = None,
    warn: Callable[[str], None],
    faults: Faults = STOP,
) -> None:
    """All arms, then `verdict.json` and the figures. Arms already finished in the folder are only read.

    `engine`, or `of_arm(name)`, runs every arm instead of the arm's own engine. It is no part of the order: exact engines
    give the same bytes.
    """
    for name, arm in find.recipe(order.recipe).build(order.config).items():
        place, ending = outcomes.arm_folder(folder.path, name), order.ending.of(arm)
        if outcomes.is_finished(place):
            continue
        try:
            train(
                arm.method,
                arm.federation,
                rounds=arm.rounds,
                seed=order.seed,
                seeds=order.seeds,
                out=place,
                engine=of_arm(name) if of_arm else engine or arm.engine,
                evaluation=arm.evaluation,
                eval_every=arm.eval_every,
                snapshot=arm.snapshot,
                callback=partial(callback, name) if callback else None,
                warn=warn,
                faults=faults,
                stop_at=ending.stop_at,
                patience=ending.patience,
                keep_best=ending.keep_best,
                store_experiment=False,
            )
        except TrainingDiverged as error:
            warn(f"{name} diverged ({error}); claims about it stay undecided")
            _record_divergence(place, arm, order.seeds)
    conclude(order, folder.path)
    folder.mark_finished()


def _record_divergence(place: Path, arm: Arm, seeds: int) -> None:
    """Finish an arm that diverged: a last row and final returns of NaN."""
    rows = log.read(place / "log.jsonl")
    writer = log.LogWriter(place / "log.jsonl", (place / "log.jsonl").stat().st_size)
    width = next((len(row["returns"]) for row in rows if "returns" in row), arm.federation.count)
    with writer:
        writer.write(rows[-1] | {"round": arm.rounds, "diverged": True} | diverged(rows, seeds, width))
    returns_file.write(place, np.full((seeds, width), np.nan), arm.rounds)


def conclude(order: Order, path: Path) -> list[Claim]:
    """Decide the claims and draw the figures from the files in the folder."""
    decided = verify(order, path)
    draw(order, path)
    return decided


def verify(order: Order, path: Path) -> list[Claim]:
    """Decide the claims and write them to `verdict.json`."""
    decided = claims(order, path)
    rows = [log.plain("verdict", claim._asdict()) for claim in decided]
    write_atomically(path / "verdict.json", (json.dumps(rows, indent=2, allow_nan=False) + "\n").encode())
    return decided


def claims(order: Order, path: Path) -> list[Claim]:
    recipe, by_arm = find.recipe(order.recipe), outcomes.of_run(order, path)
    arms = recipe.build(order.config)
    return recipe.claims(order.config, {name: outcomes.carried_on(it, arms[name]) for name, it in by_arm.items()})


def early(order: Order, path: Path) -> str | None:
    """The note on arms that ended before their last round."""
    arms, by_arm = find.recipe(order.recipe).build(order.config), outcomes.of_run(order, path)
    ends = {name: (it.rows[-1]["round"], arms[name].rounds) for name, it in by_arm.items()}
    said = ", ".join(f"{name} in round {at} of {rounds}" for name, (at, rounds) in ends.items() if at < rounds)
    return f"ended early: {said}; claims take these as staying where they ended" if said else None


def draw(order: Order, path: Path) -> list[Path]:
    """The recipe's own figures, or the learning curves of all arms."""
    recipe, by_arm = find.recipe(order.recipe), outcomes.of_run(order, path)
    if recipe.draw is not None:
        return recipe.draw(order.config, by_arm, path / "figures")
    log_rows = {name: outcome.rows for name, outcome in by_arm.items()}
    answer = headline(claims(order, path))
    title = f"{order.name}: {recipe.shows}\n{answer}"
    return [curves.draw(log_rows, path / "figures" / "return.png", title=title)]
