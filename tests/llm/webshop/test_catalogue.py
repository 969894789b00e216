"""The generated catalogue, and the expert who proves that its tasks can be solved."""

import itertools
import json
from collections import Counter

import pytest

from fedrl.llm.webshop import catalogue, pages
from fedrl.llm.webshop.environment import WebShopEnv
from fedrl.llm.webshop.expert import expert
from fedrl.llm.webshop.generated_products import CATEGORIES
from fedrl.llm.webshop.goals import Goal, human_goals
from fedrl.llm.webshop.products import Product
from fedrl.llm.webshop.reward import attributes_met, options_met
from fedrl.llm.webshop.search import engine
from fedrl.llm.webshop.shop import Shop, open_shop


@pytest.mark.parametrize("category", CATEGORIES)
def test_wares_can_be_told_apart(category):
    """Twelve types, each once; no attribute and no option value passes for another, whoever writes the goal."""
    ware = CATEGORIES[category]
    types = [each for department in ware.departments.values() for each in department]
    assert len(set(types)) == 12
    blank = Product("B", "", category, "", "", "", (), 1.0, "", {})
    for own, wanted in itertools.product(ware.attributes, repeat=2):
        assert attributes_met(blank._replace(attributes=(own,)), [wanted]) == (own == wanted)
    for name, values in ware.options.items():
        for own, wanted in itertools.product(values, repeat=2):
            assert options_met([own], [(name, wanted)]) == options_met([own], [wanted]) == (own == wanted)
    everything = [value for values in ware.options.values() for value in values]
    assert len(everything) == len(set(everything))


def test_the_catalogue_is_as_described(generated, shop):
    assert [path.name for path in generated] == [
        "items_shuffle_1000.json",
        "items_ins_v2_1000.json",
        "items_human_ins.json",
    ]
    assert len(shop.products) == 1000
    assert Counter(goal.category for goal in shop.goals).keys() == CATEGORIES.keys()
    assert len({product.query for product in shop.products.values()}) == 60
    for product in shop.products.values():
        assert len(product.options) == 2
        assert all(2 <= len(values) <= 4 for values in product.options.values())
        assert len(product.attributes) == 3
        assert all(attribute in " ".join(product.bullets).lower() for attribute in product.attributes)
        assert product.product_category.count(" › ") == 2
        assert product.price > 0
    assert len(shop.goals) > 3000


def test_distractors_share_the_type_or_the_attributes(shop):
    """Of most goals some other product has the type but not both attributes, and some the attributes in another type."""
    products = list(shop.products.values())
    confusing = 0
    for goal in shop.goals[:100]:
        wanted = set(goal.attributes)
        near = [p for p in products if p.query == goal.query and len(wanted & set(p.attributes)) == 1]
        far = [p for p in products if p.query != goal.query and wanted <= set(p.attributes)]
        confusing += bool(near and far)
    assert confusing >= 90


def test_seeds_and_sizes(tmp_path):
    def items(products, seed):
        return catalogue.write(tmp_path / f"{products}-{seed}", products, seed=seed).items.read_bytes()

    assert items(30, 1) != items(30, 2)
    assert len(json.loads(items(30, 1))) == 30
    assert len(json.loads(items(1, 1))) == 1
    with pytest.raises(ValueError, match="ask for 1 or more"):
        items(0, 1)


@pytest.mark.parametrize("goals", [None, human_goals])
@pytest.mark.parametrize("profile", [pages.TEXT, pages.COMPACT])
def test_the_expert_always_wins(generated, shop, goals, profile):
    asked = shop if goals is None else open_shop(generated, goals=goals)
    env = WebShopEnv(asked, profile)
    for task in range(0, len(asked.goals), max(1, len(asked.goals) // 150)):
        _, info = env.reset(options={"task": task})
        for action in expert(asked, task, profile):
            assert action in info["admissible_commands"]
            *_, terminated, truncated, info = env.step(action)
            assert not truncated
        assert terminated
        assert info["won"]


def chair(number, price, **more):
    fields = {"options": {}, "attributes": ("solid wood",)} | more
    return Product(
        f"B{number:02d}", "Chair, Solid Wood", "garden", "chair", "a › b", "", (), price, f"${price}", **fields
    )


def shop_of(products, options=()):
    goal = Goal(
        "B11", "garden", "chair", "Chair, Solid Wood", "a › b", "solid wood chair", ("solid wood",), options, 20.0
    )
    return Shop({each.asin: each for each in products}, [goal], engine(products), "")


def test_the_expert_pages_on():
    """Twelve alike, of which the last has the right price."""
    shop = shop_of([chair(i, 10.0 if i == 11 else 30.0) for i in range(12)])
    click = ["click[b11]", "click[buy now]"]
    assert expert(shop, 0, pages.COMPACT) == ["search[solid wood chair]", *["click[next >]"] * 2, *click]
    assert expert(shop, 0) == ["search[solid wood chair]", "click[next >]", *click]


def test_the_expert_says_when_there_is_no_way():
    """The published reward reduces a chosen "rattan" to "tan", which is not like ("material", "rattan")."""
    shop = shop_of([chair(11, 10.0, options={"material": ("rattan",)})], (("material", "rattan"),))
    with pytest.raises(LookupError, match="no product found scores 1 for task 0"):
        expert(shop, 0)
