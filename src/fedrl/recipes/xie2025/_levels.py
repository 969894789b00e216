"""Figures 6 and 7: the same comparison at three levels of heterogeneity, side by side."""

from pathlib import Path

from fedrl.experiments import judge
from fedrl.experiments.recipe import Outcome, RecipeError
from fedrl.plots import style

ALL = ("low", "medium", "high")


def check(levels: tuple[str, ...]) -> None:
    if unknown := [level for level in levels if level not in ALL]:
        raise RecipeError(f"levels are low, medium and high, got {unknown[0]!r}; try --set levels=low,high")


def arm_name(level: str, name: str) -> str:
    return f"{name} ({level})"


def by_level(levels: tuple[str, ...], arms: dict[str, Outcome]) -> dict[str, dict[str, Outcome]]:
    """Level -> method -> outcome, low to high however they were asked for."""
    return {
        level: {
            name.removesuffix(f" ({level})"): outcome for name, outcome in arms.items() if name.endswith(f"({level})")
        }
        for level in ALL
        if level in levels
    }


def draw(found: dict[str, dict[str, Outcome]], path: Path, title: str) -> Path:
    """One panel per level, one line per method, with a band of one standard error."""
    figure, panels = style.subplots(1, len(found), figsize=(4.2 * len(found), 3.8), squeeze=False)
    for axes, (level, outcomes) in zip(panels[0], found.items(), strict=True):
        for index, (name, outcome) in enumerate(outcomes.items()):
            rounds, returns = outcome.curve()
            mean, error = zip(*(judge.mean_se(row) for row in returns), strict=True)
            axes.plot(rounds, mean, label=name, linewidth=1.5, **style.look(index))
            low, high = ([m + s * e for m, e in zip(mean, error, strict=True)] for s in (-1, 1))
            axes.fill_between(rounds, low, high, color=style.look(index)["color"], alpha=0.18, linewidth=0)
        axes.set(title=f"{level} heterogeneity", xlabel="round")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    panels[0][0].set_ylabel("return, mean over clients")
    style.legend_below(figure, panels[0][0], columns=4)
    return style.save(figure, path, title)
