"""Figures 6a to 6c: rows of Table IV beside each other, named as the figures name them."""

from fedrl.recipes.recipe import Arm
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024._figure_eight import Config
from fedrl.theory.utility import FROM_1, FROM_5, FROM_10, Row

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
