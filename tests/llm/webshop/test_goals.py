"""Goals: one per human instruction, one per combination of options, with limits above the price, in WebShop's order."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrl.llm.webshop.goals import human_goals, price_limit, shuffle_goals, split, synthetic_goals
from fedrl.llm.webshop.products import read_products


def test_synthetic_goals_are_all_combinations(sample):
    goals = synthetic_goals(read_products(sample))
    boots, desk = goals[:4], goals[4:]
    assert [goal.options for goal in boots] == [
        (("color", "navy"), ("size", "6 wide")),
        (("color", "navy"), ("size", "7 | 8")),
        (("color", "burgundy"), ("size", "6 wide")),
        (("color", "burgundy"), ("size", "7 | 8")),
    ]
    (limit,) = {goal.price_upper for goal in boots}
    assert limit in (70, 80, 90)
    assert boots[0].instruction == (
        "Find me water resistant, rubber sole women's boots with color: navy, and size: 6 wide, "
        f"and price lower than {limit:.2f} dollars"
    )
    assert boots[0].attributes == ("water resistant", "rubber sole")
    assert [(goal.instruction, goal.price_upper, goal.options) for goal in desk] == [
        ("Find me a solid wood desk", math.inf, ())
    ]


def test_human_goals_need_an_attribute(sample):
    boots, coffee = human_goals(read_products(sample))
    assert boots.instruction.startswith("i need water resistant boots in navy, size 7/8, and price lower than ")
    assert boots.options == ("navy", "7 | 8")
    assert coffee.options == (("grind", "fine"),)
    assert (coffee.category, coffee.query) == ("food", "ground coffee")


@given(st.floats(0, 2000), st.text(max_size=5))
def test_price_limits(price, address):
    limit = price_limit(price, address)
    assert limit == price_limit(price, address)
    assert limit > price
    if price < 970:
        first = 10 * (math.floor(price / 10) + 1)
        assert limit in (first + 10, first + 20, first + 30)
    elif price >= 980:
        assert limit == math.inf


def test_the_larger_of_two_of_four_as_often_as_it_should_be():
    """Of the six pairs of four limits, three have the largest as their larger, two the next, one the second."""
    drawn = [price_limit(5.0, str(i)) for i in range(6000)]
    assert [drawn.count(limit) / 1000 for limit in (20.0, 30.0, 40.0)] == pytest.approx([1, 2, 3], abs=0.15)


def test_order_is_that_of_pythons_shuffle_from_233(shop):
    order = list(range(len(shop.goals)))
    random.seed(233)
    random.shuffle(order)
    made = synthetic_goals(shop.products.values())
    assert [made[i] for i in order] == list(shop.goals) == shuffle_goals(made)


def test_splits():
    assert split(6910) == (range(500), range(500, 6910))
    assert split(100) == (range(20), range(20, 100))
    assert split(100, validation=60) == (range(60), range(60, 100))
    with pytest.raises(ValueError, match="101 of 100 goals cannot be kept"):
        split(100, validation=101)
