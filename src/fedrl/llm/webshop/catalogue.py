"""A generated catalogue in the format of WebShop's files, if those are not available: same schema, invented products.

Products come in families of four: one; one of its type with two other attributes; one with its attributes but of another
type; and one of its type and attributes with other options at a higher price. So no single word gives the answer away.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.llm.webshop.generated_products import BRANDS, CATEGORIES, Category
from fedrl.llm.webshop.products import Files

ATTRIBUTES = 3  # per product; instructions request two of them


class Plan(NamedTuple):
    """The properties of a product that its texts are written from."""

    category: str
    type: str
    attributes: tuple[str, ...]
    options: dict[str, list[str]]
    price: float


def write(folder: str | Path, products: int = 1000, *, seed: int = 0, instructed: float = 0.6) -> Files:
    """Write items_shuffle, items_ins_v2 (with their number in the name) and items_human_ins; the same bytes for the same
    arguments. A share `instructed` of the products has a synthetic and, drawn independently, a human instruction."""
    if products < 1:
        raise ValueError(f"a catalogue of {products} products cannot be written; ask for 1 or more")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    plans = [plan for family in range(-(-products // 4)) for plan in _family(random.Random(f"{seed} family {family}"))]
    plans = plans[:products]
    random.Random(f"{seed} order").shuffle(plans)
    files = Files(
        folder / f"items_shuffle_{products}.json",
        folder / f"items_ins_v2_{products}.json",
        folder / "items_human_ins.json",
    )
    width = max(4, len(str(products - 1)))
    items, attributes, human = [], {}, {}
    for i, plan in enumerate(plans):
        draw = random.Random(f"{seed} product {i}")
        asin = f"B{i:0{width}d}"
        items.append(_item(asin, plan, draw))
        attributes[asin] = {"attributes": list(plan.attributes)}
        if draw.random() < instructed:
            attributes[asin] |= _synthetic(plan, draw)
        if draw.random() < instructed:
            human[asin] = [_human(asin, plan, draw)]
    for path, content in zip(files, (items, attributes, human), strict=True):
        assert path is not None
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    return files


def _family(draw: random.Random) -> Iterator[Plan]:
    category = draw.choice(list(CATEGORIES))
    ware = CATEGORIES[category]
    types = [each for department in ware.departments.values() for each in department]
    type, other = draw.sample(types, 2)
    attributes = tuple(draw.sample(ware.attributes, ATTRIBUTES))
    rest = [each for each in ware.attributes if each not in attributes]
    price = round(draw.uniform(5, 60), 2)
    yield Plan(category, type, attributes, _options(ware, draw), price)
    near = (draw.choice(attributes), *draw.sample(rest, ATTRIBUTES - 1))
    yield Plan(category, type, near, _options(ware, draw), round(price * draw.uniform(0.7, 1.3), 2))
    yield Plan(category, other, attributes, _options(ware, draw), round(price * draw.uniform(0.7, 1.3), 2))
    yield Plan(category, type, attributes, _options(ware, draw), round(price + draw.uniform(40, 80), 2))


def _options(category: Category, draw: random.Random) -> dict[str, list[str]]:
    """Two of the category's three options, in its order, with two to four values each."""
    names = draw.sample(list(category.options), 2)
    return {
        name: draw.sample(values, min(draw.randint(2, 4), len(values)))
        for name, values in category.options.items()
        if name in names
    }


def _item(asin: str, plan: Plan, draw: random.Random) -> dict[str, Any]:
    brand, ware = draw.choice(BRANDS), CATEGORIES[plan.category]
    department = next(name for name, types in ware.departments.items() if plan.type in types)
    first, *others = plan.attributes
    return {
        "asin": asin,
        "name": ", ".join([f"{brand} {plan.type.title()}", *(each.title() for each in plan.attributes)]),
        "category": plan.category,
        "query": plan.type,
        "product_category": f"{ware.root} › {department} › {plan.type.title()}",
        "full_description": f"{plan.type.capitalize()} by {brand}: {first}, {' and '.join(others)}. Made for every day.",
        "small_description": [
            f"{each.capitalize()}: {draw.choice(PRAISE)}." for each in draw.sample(plan.attributes, ATTRIBUTES)
        ],
        "pricing": _pricing(plan.price, draw),
        "customization_options": {
            name: [{"value": value, "image": None} for value in values] for name, values in plan.options.items()
        },
        "images": [f"images/{asin}.jpg"],
    }


def _pricing(price: float, draw: random.Random) -> str:
    """Usually one price; for one product in ten a range from it upwards."""
    return f"${price:.2f}" if draw.random() < 0.9 else f"${price:.2f}${price + draw.uniform(1, 5):.2f}"


def _synthetic(plan: Plan, draw: random.Random) -> dict[str, Any]:
    asked = draw.sample(plan.attributes, 2)
    text = draw.choice(("Find me {0}, {1} {type}", "Find me {0} {type} that are {1}", "Find me {type} {0}, {1}"))
    return {"instruction": text.format(*asked, type=plan.type), "instruction_attributes": asked}


def _human(asin: str, plan: Plan, draw: random.Random) -> dict[str, Any]:
    asked = draw.sample(plan.attributes, 2)
    values = {name: draw.choice(each) for name, each in plan.options.items()}
    text = draw.choice(
        (
            "i am looking for {0} {type} that is {1}, with {wish}.",
            "i need {0}, {1} {type} in {wish}.",
            "i would like to buy {type} which is {0} and {1}, and i want {wish}.",
        )
    )
    wish = " and ".join(f"{name} {value}" for name, value in values.items())
    return {
        "asin": asin,
        "instruction": text.format(*asked, type=plan.type, wish=wish),
        "instruction_attributes": asked,
        "instruction_options": list(values.values()),
    }


PRAISE = (
    "as customers told us they wanted",
    "checked before it leaves our workshop",
    "so you need not think about it again",
    "made with care in small numbers",
)
