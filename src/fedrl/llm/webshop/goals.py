"""What customers want: goals from human and from synthetic instructions, in WebShop's order and splits."""

import math
import random
from collections.abc import Iterable, Sequence
from itertools import product as combinations
from typing import NamedTuple

from fedrl.llm.webshop.products import Product

LIMITS = [10.0 * i for i in range(1, 100)]

Options = tuple[str | tuple[str, str], ...]


class Goal(NamedTuple):
    asin: str  # of the product it was written for; other products may also satisfy it
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    options: Options  # values (human) or (name, value) pairs (synthetic)
    price_upper: float  # infinite: no limit


class Split(NamedTuple):
    validation: range
    train: range


def human_goals(products: Iterable[Product], *, seed: int = 0) -> list[Goal]:
    """One goal for each human instruction that names at least one attribute."""
    return [
        _goal(
            product, asked.instruction.strip("."), asked.attributes, asked.options, f"{seed} limit {product.asin} {i}"
        )
        for product in products
        for i, asked in enumerate(product.human)
        if asked.attributes
    ]


def synthetic_goals(products: Iterable[Product], *, seed: int = 0) -> list[Goal]:
    """One goal for each combination of option values of a product with an instruction, all with the same price limit."""
    goals = []
    for product in products:
        if product.instruction is None:
            continue
        names = sorted(product.options)
        for values in combinations(*(product.options[name] for name in names)):
            options = tuple(zip(names, values, strict=True))
            text = ", and ".join(f"{name}: {value}" for name, value in options)
            instruction = product.instruction + (f" with {text}" if text else "")
            address = f"{seed} limit {product.asin}"
            goals.append(_goal(product, instruction, product.instruction_attributes, options, address))
    return goals


def _goal(product: Product, instruction: str, attributes: tuple[str, ...], options: Options, address: str) -> Goal:
    upper = price_limit(product.price, address)
    limit = f", and price lower than {upper:.2f} dollars" if upper < math.inf else ""
    return Goal(
        product.asin,
        product.category,
        product.query,
        product.name,
        product.product_category,
        instruction + limit,
        attributes,
        options,
        upper,
    )


def price_limit(price: float, address: str) -> float:
    """The larger of two drawn from the first four of 10, 20, …, 990 above the price; none where fewer than two are left.

    Unlike the original, whose draw here has no seed, it is drawn by address.
    """
    limits = [limit for limit in LIMITS if limit > price][:4]
    return max(random.Random(address).sample(limits, 2)) if len(limits) >= 2 else math.inf


def shuffle_goals(goals: Sequence[Goal], seed: int = 233) -> list[Goal]:
    """The goals in the order of WebShop's tasks: with the same files, task i has the same product and options as there."""
    goals = list(goals)
    random.Random(seed).shuffle(goals)
    return goals


def split(goals: int, validation: int | None = None) -> Split:
    """Task numbers for validation, from 0, and for training, the rest; by default 500, or a fifth of under 2,500 goals."""
    count = min(500, goals // 5) if validation is None else validation
    if not 0 <= count <= goals:
        raise ValueError(f"{count} of {goals} goals cannot be kept for validation; take 0 to {goals}")
    return Split(range(count), range(count, goals))
