"""Labbi et al. 2025, Theorem E.12: what is left of J_r* - J_r at a fixed step falls with M and grows with heterogeneity.

The theorem bounds this floor by a sum. Its noise term falls like eta / M; those of heterogeneity, of truncation and of
local steps do not depend on M. J_r* is the mean of the clients' own optima, exact by soft policy iteration; J_r is exact.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from fedrl.experiments import judge
from fedrl.experiments.recipe import Outcome, Recipe
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.labbi2025 import _floors
from fedrl.recipes.labbi2025._floor_claims import Floors, claims, floors
from fedrl.recipes.labbi2025._floors import ONE_STEP, POOLED, Settings, build

PAPER_SETTINGS = {
    "clients": (1, 4, 16, 64),
    "epsilons": (0.1, 0.2, 0.4),
    "exact_rounds": 8000,
}


def draw(config: Settings, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Left the floor against M, right against epsilon; a thin line has the exponent that is claimed."""
    found, most = floors(arms), config.clients[-1]
    figure, (left, right) = style.subplots(1, 2, figsize=(10, 4.4), sharey=True)
    middle = config.clients[1:-1]
    by_size = [_floors.federation(M) for M in config.clients]
    _points(left, 0, config.clients, found, by_size, f"step {config.eta:g}", exponent=-1.0)
    _points(left, 1, middle, found, [_floors.proportional(M) for M in middle], f"step {config.eta:g} M (control)")
    _points(left, 2, [most], found, [POOLED], f"M = 1 with {most} times the episodes (control)", marker="s")
    _points(left, 3, [most], found, [ONE_STEP], f"one step {config.local_steps} times as long (control)", marker="x")
    left.set(xlabel="clients M, all alike", ylabel="J_r* - J_r, second half of the run", xscale="log", yscale="log")
    without, at_once, noisy = (
        [name(epsilon) for epsilon in config.epsilons]
        for name in (_floors.exact, _floors.exact_one_step, _floors.sampled)
    )
    _points(right, 4, config.epsilons, found, noisy, f"M = {most}")
    _points(right, 5, config.epsilons, found, without, f"M = {most}, exact gradients", exponent=2.0)
    _points(right, 6, config.epsilons, found, at_once, f"M = {most}, exact gradients, one long step", marker="x")
    right.set(xlabel="epsilon, share of the clients' own kernels", xscale="log")
    for axes, places in ((left, config.clients), (right, config.epsilons)):
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.set_xticks([], minor=True)
    style.legend_below(figure, left, right, columns=2)
    title = "RS-FedPG on Synthetic: floor at a fixed step (± 1 s.e.; lines 1/M, epsilon²)"
    return [style.save(figure, folder / "floors.png", title)]


def _points(
    axes: Axes,
    index: int,
    places: Sequence[float],
    found: Floors,
    names: list[str],
    label: str,
    exponent: float | None = None,
    marker: str = "o",
) -> None:
    if not names:
        return
    colour = style.look(index)["color"]
    mean, error = zip(*(judge.mean_se(found[name]) for name in names), strict=True)
    axes.errorbar(places, mean, error, capsize=3, color=colour, marker=marker, linestyle="", label=label, mfc="none")
    if exponent is not None:
        guide = mean[0] * (np.asarray(places) / places[0]) ** exponent
        axes.plot(places, guide, color=colour, linewidth=0.8)


RECIPE = Recipe(
    **facts("labbi2025/speed-up"),
    seeds=8,
    config=Settings,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings=PAPER_SETTINGS,
    paper_seeds=16,
    claim_texts=(
        "at a fixed step the gap that remains falls like 1/M, and is noise: exact gradients leave nothing",
        "a client is worth as much as an episode more, and local steps cost nothing (our controls)",
        "with a step proportional to M, as in Figure 1a, the gap that remains does not fall (our control)",
        "where environments differ it grows like epsilon^2, as the price of sharing a policy and not as drift",
    ),
)
