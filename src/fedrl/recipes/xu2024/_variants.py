"""Rows of Table IV side by side, named as in the figures, and their overheads."""

from fedrl.experiments.recipe import Arm, Outcome
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024._figure_eight import Config
from fedrl.theory.utility import FROM_1, FROM_5, FROM_10, Overheads, Row

RANGES = {FROM_1: "1~15", FROM_5: "5~15", FROM_10: "10~15"}


def name(row: Row) -> str:
    parts = [f"tau = {RANGES.get(row.tau_i, row.tau)}"]
    if row.lam is not None:
        parts.append(f"lambda = {row.lam:g}")
    if graph := eight.GRAPHS[row.links]:
        parts.append(f"E = {row.E}, mu_2 = {graph.mu_2:.4f}")
    return f"{row.method}, {', '.join(parts)}"


def arms(config: Config, rows: tuple[Row, ...]) -> dict[str, Arm]:
    return {name(row): eight.arm(config, eight.variant(config, row), row.tau) for row in rows}


def spent(outcome: Outcome, until: int | None = None) -> Overheads:
    """C1, C2, W1, W2 as counted in the log, up to the round `until`: everyone uploads in every round."""
    played = [row for row in outcome.rows if 0 < row["round"] <= (until or outcome.rows[-1]["round"])]
    rows = [row for row in played if "train/updates" in row]  # not those in the place of rounds after an early end
    updates, messages = (sum(row[f"train/{what}"] for row in rows) for what in ("updates", "messages"))
    return Overheads(outcome.returns.shape[1] * len(rows), updates, messages, messages)
