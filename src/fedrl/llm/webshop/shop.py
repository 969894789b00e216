"""A shop, opened once and shared by all its customers: products, goals in task order, and the search engine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedrl.llm.webshop.goals import Goal, shuffle_goals, synthetic_goals
from fedrl.llm.webshop.products import Files, Product, files_in, read_products
from fedrl.llm.webshop.search import Search, engine


class Shop(NamedTuple):
    products: dict[str, Product]  # by asin
    goals: Sequence[Goal]  # task i is goals[i]
    search: Search
    characters: str  # that may occur on its pages


def open_shop(
    files: Files | str | Path,
    *,
    goals: Callable[..., list[Goal]] = synthetic_goals,
    limit: int | None = None,
    seed: int = 0,
    k1: float = 0.9,
    b: float = 0.4,
) -> Shop:
    """The shop of three files, or of a folder with them; `goals` is `synthetic_goals` (as in fedagent's released
    settings) or `human_goals`, `limit` the number of products read, `seed` of the prices and price limits."""
    files = files if isinstance(files, Files) else files_in(files)
    products = read_products(files, limit=limit, seed=seed)
    tasks = shuffle_goals(goals(products, seed=seed))
    if not tasks:
        raise ValueError(
            f"{files.items} and its instructions give no task for {goals.__name__}; read more products, or take "
            "`synthetic_goals` or `human_goals`, whichever the files have instructions for"
        )
    return Shop(
        {product.asin: product for product in products},
        tasks,
        engine(products, k1=k1, b=b),
        _characters(products, tasks),
    )


def _characters(products: Sequence[Product], goals: Sequence[Goal]) -> str:
    found = set(map(chr, range(32, 127))) | {"\n"}
    for product in products:
        found.update(product.asin, product.name, product.description, *product.bullets, *product.attributes)
        found.update(product.category, product.query, product.product_category)
        for name, values in product.options.items():
            found.update(name, *values)
    for goal in goals:
        found.update(goal.instruction)
    return "".join(sorted(found | set("".join(found).lower())))
