"""The reward, term by term, against numbers computed by hand from the published rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrl.llm.webshop.goals import Goal
from fedrl.llm.webshop.products import Product
from fedrl.llm.webshop.reward import (
    COLOURS,
    MODELS,
    attributes_met,
    nouns_by,
    options_met,
    score,
    title_nouns,
    type_factor,
)

BOOTS = Product(
    asin="B1",
    name="Hillbrook Walking Boots",
    category="fashion",
    query="walking boots",
    product_category="Shoes › Boots › Walking",
    description="Made of Natural Rubber.",
    bullets=("Keeps feet dry", "Hand stitched seams"),
    price=50.0,
    price_tag="$50.0",
    options={"color": ("navy", "red"), "size": ("medium", "large")},
    attributes=("water resistant", "arch support"),
)
GOAL = Goal(
    asin="B1",
    category="fashion",
    query="walking boots",
    name="Hillbrook Walking Boots",
    product_category="Shoes › Boots › Walking",
    instruction="",
    attributes=("water resistant", "arch support"),
    options=(("color", "navy"), ("size", "large")),
    price_upper=60.0,
)
RIGHT = {"color": "navy", "size": "large"}


def by_words(title):
    return tuple(title.lower().split())


@pytest.mark.parametrize(
    ("changes", "chosen", "total", "terms"),
    [
        ({}, RIGHT, 1.0, (1.0, 2, 2, 1)),
        ({"attributes": ("water resistant",)}, RIGHT, 4 / 5, (1.0, 1, 2, 1)),
        ({"attributes": ()}, RIGHT, 3 / 5, (1.0, 0, 2, 1)),
        ({}, {"color": "navy"}, 4 / 5, (1.0, 2, 1, 1)),
        ({}, {}, 3 / 5, (1.0, 2, 0, 1)),
        ({}, {"color": "red", "size": "medium"}, 3 / 5, (1.0, 2, 0, 1)),
        ({"price": 60.0}, RIGHT, 1.0, (1.0, 2, 2, 1)),
        ({"price": 60.01}, RIGHT, 4 / 5, (1.0, 2, 2, 0)),
        ({"attributes": (), "price": 61.0}, {}, 0.0, (1.0, 0, 0, 0)),
        ({"name": "Garden Hose"}, RIGHT, 0.0, (0.0, 2, 2, 1)),
    ],
)
def test_total(changes, chosen, total, terms):
    found = score(BOOTS._replace(**changes), GOAL, chosen, by_words)
    assert found == (total, *terms)


def test_half_the_type_halves_everything():
    """One of five title words, another search term, one common level: r_type 0.5; 4 of 5 met."""
    goal = GOAL._replace(name="Boots b c d e", query="other", product_category="Shoes › x")
    assert score(BOOTS, goal, {"size": "large"}, by_words) == (0.5 * 4 / 5, 0.5, 2, 1, 1)


def test_no_attributes_and_no_options_leave_the_price():
    assert score(BOOTS, GOAL._replace(attributes=(), options=()), {}).total == 1.0
    assert score(BOOTS, GOAL._replace(attributes=(), options=(), price_upper=1.0), {}).total == 0.0


@pytest.mark.parametrize(
    ("wanted", "query", "path", "factor"),
    [
        ("hillbrook walking boots", "walking boots", "Shoes › Boots › Walking", 1.0),
        ("hillbrook walking boots", "other", "x", 1.0),  # title 3/3
        ("boots b c d", "other", "x", 1.0),  # 1/4 > 0.2
        ("boots b c d e", "other", "x", 0.5),  # 1/5 is not above 0.2
        ("boots b c d e", "walking boots", "x", 1.0),  # equal search terms
        ("boots b c d e", "other", "Boots › y ›  Shoes ", 1.0),  # two levels, in any order
        ("boots b c d e", "other", "Boots › Boots › y", 0.5),  # one level, twice
        ("boots b c d e f g h i j", "walking boots", "Shoes › Boots", 1.0),  # 1/10 is not below 0.1
        ("boots b c d e f g h i j k", "walking boots", "Shoes › Boots", 0.1),  # 1/11 overrides the rest
        ("boots boots boots d e f g h i j k", "walking boots", "x", 0.1),  # repetitions count below the line only
        ("b c", "walking boots", "Shoes › Boots", 0.0),
        ("", "walking boots", "x", 1.0),  # no nouns: 0.2
        ("", "other", "x", 0.5),
    ],
)
def test_type_factor(wanted, query, path, factor):
    assert type_factor(BOOTS, GOAL._replace(name=wanted, query=query, product_category=path), by_words) == factor


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ("water resistant", 1),
        ("Water-Resistant", 1),  # case and hyphens do not count
        ("arch supports", 1),  # 96
        ("resistant water", 1),  # order does not count
        ("arch", 1),  # all of it within another
        ("sand resistant", 0),
        ("walking", 1),  # in the title
        ("hand stitched", 1),  # in a bullet point
        ("natural rubber", 1),  # in the description
        ("Natural rubber", 0),  # there only literally, in lower case
        ("dry hand", 1),  # bullet points are joined by a blank
    ],
)
def test_one_attribute(wanted, met):
    assert attributes_met(BOOTS, [wanted]) == met


@pytest.mark.parametrize(
    ("chosen", "wanted", "met"),
    [
        ("large", ("size", "large"), 1),
        ("x-large", ("size", "large"), 0),  # 83
        ("x-large", "large", 1),  # without the name it is all within
        ("navy blue", ("color", "blue"), 1),  # both blue
        ("light blue", "royal blue", 1),
        ("light pink", "pink", 0),  # "light" comes before "pink" in the list of colours
        ("dark red", "red", 0),
        ("red", ("color", "dark red"), 1),  # a pair is not reduced, and has all of "red" within
        ("rattan", "rattan", 1),  # both reduced to "tan"
        ("rattan", ("material", "rattan"), 0),  # as published: only the choice is
        ("8 ounce (pack of 1)", "8 ounce (pack of 2)", 1),  # 94
    ],
)
def test_one_option(chosen, wanted, met):
    assert options_met([chosen], [wanted]) == met


@given(st.lists(st.sampled_from(["navy", "red", "medium", "large", *COLOURS[:20]]), max_size=4), st.randoms())
def test_options_do_not_depend_on_order_and_more_never_hurt(chosen, draw):
    met = options_met(chosen, GOAL.options)
    mixed = draw.sample(chosen, len(chosen))
    assert options_met(mixed, GOAL.options) == met <= options_met([*chosen, "large"], GOAL.options) <= 2


@given(
    st.sets(st.sampled_from(["water resistant", "arch support", "vegan"])),
    st.dictionaries(st.sampled_from(["color", "size"]), st.sampled_from(["navy", "red", "medium", "large"])),
    st.floats(0, 100),
)
def test_one_exactly_when_everything_is_met(attributes, chosen, price):
    found = score(BOOTS._replace(attributes=tuple(sorted(attributes)), price=price), GOAL, chosen, by_words)
    everything = {"water resistant", "arch support"} <= attributes and price <= 60
    everything &= {"navy", "large"} <= set(chosen.values())
    assert 0 <= found.total <= 1
    assert (found.total == 1.0) == everything


def test_which_nouns_are_in_use():
    assert nouns_by() in (*MODELS, "alphabetic words without stop words")
    if nouns_by() not in MODELS:
        title = "The 2 Boots, for Women's Wide Feet (Boots 3XL)"
        assert title_nouns(title) == ("boots", "women", "wide", "feet", "boots", "xl")
