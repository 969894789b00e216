"""`fedrl evaluate` of language agents: success and score on held-out tasks, each played anew."""

from typing import Any

import numpy as np

from fedrl import client_returns
from fedrl.cli import output
from fedrl.experiments import judge
from fedrl.experiments.restore import RestoredRun
from fedrl.trained import Trained

HOW = "share of the held-out tasks that are won, each played {episodes} with other draws than in training"
RATES = ("return", "score")  # in the log; readers see the first as success


def evaluate(run: RestoredRun, *, episodes: int, seed: int, best: bool, name: str, as_json: bool) -> None:
    console = output.screen(stderr=as_json)
    found: dict[str, dict[str, np.ndarray]] = {}
    for arm, it in run.arms.items():
        with console.status(f"evaluating {arm} …"):
            found[arm] = rates(it, episodes, seed)
    how = HOW.format(episodes="once" if episodes == 1 else f"{episodes} times")
    arms = {
        arm: {kind: _summary(values) for kind, values in kinds.items()} | {"how": how, "round": run.arms[arm].round}
        for arm, kinds in found.items()
    }
    content = {"run": run.path, "recipe": run.name, "seed": seed, "episodes": episodes, "best": best, "arms": arms}
    file = output.write(run.path / f"{name}.json", content)
    if as_json:
        output.emit(content | {"file": file})
        return
    rows = [
        (arm, kind, summary["mean"], summary["se"])
        for arm, kinds in arms.items()
        for kind, summary in kinds.items()
        if isinstance(summary, dict)
    ]
    console.print(output.table(("arm", "", "mean", "± s.e."), rows))
    output.say(console, f"\nSuccess: {how}; standard errors are over seeds.", "dim")
    output.say(console, f"\nwritten  {file}")


def rates(it: Trained, episodes: int, seed: int) -> dict[str, np.ndarray]:
    """Success, score and success by type, each [seeds], measured as the arm is while it trains, but at another address."""
    found = client_returns.metrics(it, *((seed, episode) for episode in range(episodes)))
    names = [name.removeprefix("measure/") for name in found[0]]
    kept = [*RATES, *sorted(name for name in names if name.startswith("success/"))]
    means = {name: np.mean([np.asarray(row[f"measure/{name}"], np.float64) for row in found], axis=0) for name in kept}
    return {"success": means.pop("return")} | means


def _summary(values: np.ndarray) -> dict[str, Any]:
    mean, error = judge.mean_se(values)
    return {"mean": mean, "se": error if len(values) > 1 else None, "by_seed": values}
