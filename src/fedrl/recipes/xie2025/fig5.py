"""Figure 5 of Xie & Song 2025: how often each Mountain Car was chosen, and what the final policy earns on it.

Cars are numbered so that the shift of their engine grows with the number: 1 to 10 are pushed backwards most, 40 to 60
forwards.
"""

from pathlib import Path

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.xie2025 import _mountain_cars as cars
from fedrl.recipes.xie2025._methods import FEDAVG, FEDPOHCS, POWER
from fedrl.recipes.xie2025._mountain_cars import Config

METHODS = (FEDPOHCS, FEDAVG, POWER)


def build(config: Config) -> dict[str, Arm]:
    return {name: cars.arm(config, name) for name in METHODS}


def frequency(outcome: Outcome) -> np.ndarray:
    """Share of all choices that fell on each client [N]."""
    times = np.sum([row["train/chosen"] for row in outcome.rows if "train/chosen" in row], axis=0)
    return np.asarray(times / times.sum())


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    """Shares are of all seeds together; with d of N candidates a share can differ from chance by sampling alone."""
    late = slice(config.clients * 2 // 3 - 1, None)  # cars 40 to 60 of 60
    share = {name: float(frequency(outcome)[late].sum()) for name, outcome in arms.items()}
    chance = len(range(config.clients)[late]) / config.clients
    choices = config.rounds * config.participants * arms[FEDPOHCS].returns.shape[0]
    error = (chance * (1 - chance) / choices) ** 0.5
    first = slice(0, max(1, config.clients // 6))
    gap, spread = judge.mean_se(_mean(arms[FEDPOHCS], first) - _mean(arms[FEDAVG], first))
    numbers = {"chance": chance, "se": error} | share
    return [
        Claim(
            f"{FEDPOHCS} chooses the last third of the cars less often than chance",
            judge.sign(chance - share[FEDPOHCS], error),
            numbers,
        ),
        Claim(
            f"{POWER} chooses the last third more often than {FEDPOHCS}",
            judge.sign(share[POWER] - share[FEDPOHCS], 2**0.5 * error),
            numbers,
        ),
        Claim(
            f"the first cars earn more with {FEDPOHCS} than with {FEDAVG}, by 3 SE",
            judge.sign(gap, spread),
            {"gap": gap, "se": spread},
        ),
    ]


def _mean(outcome: Outcome, clients: slice) -> np.ndarray:
    return np.asarray(outcome.returns[:, clients].mean(axis=1))


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Bars: how often each car was chosen. Points: the return of the final policy on it."""
    figure, panels = style.subplots(len(arms), 1, figsize=(8, 2.6 * len(arms)), sharex=True)
    for axes, (name, outcome) in zip(np.atleast_1d(panels), arms.items(), strict=True):
        numbers = np.arange(1, config.clients + 1)
        axes.bar(numbers, frequency(outcome), color=style.COLOURS[5], alpha=0.6)
        axes.set(title=name, ylabel="share of choices")
        axes.axhline(1 / config.clients, color="0.6", linewidth=0.8, linestyle=":")
        earned = axes.twinx()
        earned.scatter(numbers, outcome.returns.mean(axis=0), color=style.COLOURS[1], s=12)
        earned.set_ylabel("final return")
    axes.set_xlabel("car")
    return [style.save(figure, folder / "chosen.png", "Who was chosen, and what each car got")]


RECIPE = Recipe(
    **facts("xie2025/fig5"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings={"rounds": 500, "warm_up": 100_000, "eval_every": 5},
    paper_seeds=3,
    claim_texts=(
        "FedPOHCS chooses the last third of the cars less often than chance",
        "Power-of-Choice chooses the last third more often than FedPOHCS",
        "the first cars earn more with FedPOHCS than with FedAvg",
    ),
)
