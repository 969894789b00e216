"""`fedrl evaluate` of language agents: success and score on held-out tasks, each played anew."""

from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedrl import keys
from fedrl.cli import output
from fedrl.experiments import judge
from fedrl.experiments.orders import Order
from fedrl.experiments.restore import TrainedArm

HOW = "share of the held-out tasks that are won, each played {episodes} with other draws than in training"
RATES = ("return", "score")  # in the log; readers see the first as success


def evaluate(
    order: Order, path: Path, loaded: dict[str, TrainedArm], *, episodes: int, seed: int, as_json: bool
) -> None:
    console = output.screen(stderr=as_json)
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, it in loaded.items():
        with console.status(f"evaluating {name} …"):
            found[name] = rates(it, episodes, seed)
    how = HOW.format(episodes="once" if episodes == 1 else f"{episodes} times")
    arms = {
        name: {kind: _summary(values) for kind, values in kinds.items()} | {"how": how} for name, kinds in found.items()
    }
    content = {"run": path, "recipe": order.recipe, "seed": seed, "episodes": episodes, "arms": arms}
    file = output.write(path / "evaluation.json", content)
    if as_json:
        output.emit(content | {"file": file})
        return
    rows = [
        (name, kind, summary["mean"], summary["se"])
        for name, kinds in arms.items()
        for kind, summary in kinds.items()
        if isinstance(summary, dict)
    ]
    console.print(output.table(("arm", "", "mean", "± s.e."), rows))
    output.say(console, f"\nSuccess: {how}; standard errors are over seeds.", "dim")
    output.say(console, f"\nwritten  {file}")


def rates(it: TrainedArm, episodes: int, seed: int) -> dict[str, np.ndarray]:
    """Success, score and success by type, each [seeds], measured as the arm is while it trains, but at another address."""
    arm, algorithm, state = it
    assert arm.evaluation is not None
    found: list[dict[str, np.ndarray]] = []
    with closing(arm.engine(algorithm, arm.federation, arm.evaluation(algorithm, arm.federation), 1)) as play:
        for episode in range(episodes):
            fresh = jax.vmap(lambda key, episode=episode: keys.of(key, "evaluate", seed, episode))(state.key)
            found.append(jax.device_get(play.evaluate(state._replace(key=fresh))))
    names = [name.removeprefix("measure/") for name in found[0]]
    kept = [*RATES, *sorted(name for name in names if name.startswith("success/"))]
    means = {name: np.mean([np.asarray(row[f"measure/{name}"], np.float64) for row in found], axis=0) for name in kept}
    return {"success": means.pop("return")} | means


def _summary(values: np.ndarray) -> dict[str, Any]:
    mean, error = judge.mean_se(values)
    return {"mean": mean, "se": error if len(values) > 1 else None, "by_seed": values}
