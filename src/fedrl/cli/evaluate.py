"""`fedrl evaluate`: returns of the learnt policies client by client, in fresh episodes."""

from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedrl import keys
from fedrl.cli import agents, evaluate_agents, output
from fedrl.environments.tabular import finite
from fedrl.evaluation import exact_return, sampled_return
from fedrl.experiments import orders, restore
from fedrl.experiments.recipe import RecipeError
from fedrl.experiments.restore import TrainedArm
from fedrl.plots import clients as dots

EPISODES = 20  # per client, by default
QUANTILES = (10, 25, 50, 75, 90)  # per cent of clients
EXACT = "exact discounted return by a linear solve; no episodes are played, so --episodes and --seed do not matter"
SAMPLED = "mean undiscounted return of {episodes} fresh episodes per client"


def evaluate(
    path: Path, *, episodes: int | None, arm: str | None, seed: int, deterministic: bool, as_json: bool
) -> None:
    if episodes is not None and episodes < 1:
        raise RecipeError(f"--episodes expects a whole number of at least 1, got {episodes}; try --episodes {EPISODES}")
    order = orders.from_toml(path)
    path = path.parent if path.is_file() else path
    loaded = {name: restore.load(order, path, name, it) for name, it in restore.arms(order, arm).items()}
    if agents.is_language(order) and deterministic:
        raise RecipeError(
            "--deterministic takes the most likely action, and language agents choose texts word by word; leave it out"
        )
    if agents.is_language(order):
        evaluate_agents.evaluate(order, path, loaded, episodes=episodes or 1, seed=seed, as_json=as_json)
        return
    episodes = episodes or EPISODES
    console = output.screen(stderr=as_json)
    by_arm: dict[str, np.ndarray] = {}
    for name, it in loaded.items():
        with console.status(f"evaluating {name} …"):
            by_arm[name] = returns(it, episodes, seed, deterministic)
    methods = {name: how(it, episodes, deterministic) for name, it in loaded.items()}
    numbers = {name: summary(each) for name, each in by_arm.items()}
    title = f"{order.recipe}: return of each client after training"
    figure = dots.draw(by_arm, path / "figures" / "evaluation.png", title=title)
    arms = {name: {"how": methods[name]} | numbers[name] | {"returns": by_arm[name]} for name in by_arm}
    content = {
        "run": path,
        "recipe": order.recipe,
        "seed": seed,
        "deterministic": deterministic,
        "arms": arms,
        "figure": figure,
    }
    file = output.write(path / "evaluation.json", content)
    if as_json:
        output.emit(content | {"file": file})
        return
    rows = [(name, it["mean"], it["se"], it["worst"], *it["quantiles"].values()) for name, it in numbers.items()]
    columns = ("arm", "return", "± s.e.", "worst client", *(f"{share} %" for share in QUANTILES))
    console.print(output.table(columns, rows))
    output.say(console)
    for method in dict.fromkeys(methods.values()):
        output.say(console, f"Return: {method}.", "dim")
    output.say(console, "Worst client and quantiles are over the clients of a seed, then averaged over seeds.", "dim")
    output.say(console, f"\nwritten  {file}\nfigure   {figure}")


def returns(it: TrainedArm, episodes: int, seed: int, deterministic: bool = False) -> np.ndarray:
    """[seeds, clients], evaluated by the arm's own engine with random keys of their own."""
    arm, algorithm, state = it
    evaluation = (
        exact_return(deterministic=deterministic)
        if is_exact(it)
        else sampled_return(episodes, deterministic=deterministic)
    )
    fresh = jax.vmap(lambda key: keys.of(key, "evaluate", seed))(state.key)  # environments depend on clients.key
    with closing(arm.engine(algorithm, arm.federation, evaluation(algorithm, arm.federation), 1)) as play:
        return np.asarray(jax.device_get(play.evaluate(state._replace(key=fresh)))["measure/returns"], np.float64)


def is_exact(it: TrainedArm) -> bool:
    return isinstance(jax.eval_shape(it.arm.federation.example), finite.MDP)


def how(it: TrainedArm, episodes: int, deterministic: bool = False) -> str:
    way = EXACT if is_exact(it) else SAMPLED.format(episodes=episodes)
    return f"{way}; always the most likely action" if deterministic else way


def summary(found: np.ndarray) -> dict[str, Any]:
    """Of returns [seeds, clients]: mean of all, its standard error over seeds, worst client and quantiles of a seed."""
    by_seed = found.mean(axis=1)
    quantiles = np.percentile(found, QUANTILES, axis=1).mean(axis=1)
    return {
        "mean": float(by_seed.mean()),
        "se": float(by_seed.std(ddof=1) / len(by_seed) ** 0.5) if len(by_seed) > 1 else None,
        "worst": float(found.min(axis=1).mean()),
        "quantiles": {str(share): float(value) for share, value in zip(QUANTILES, quantiles, strict=True)},
        "by_client": found.mean(axis=0),
    }
