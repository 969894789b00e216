"""Products as WebShop's three files describe them: items_shuffle*.json, items_ins_v2*.json and items_human_ins.json.

Files are streamed. Of a record only the fields that the shop shows or scores are kept (no images, sellers or reviews). All
loaded products are in memory, about as large as their texts, so for the 5 GB file give a `limit`.
"""

import random
import re
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.llm.webshop.stream import members, records

MISSING_PRICE = 100.0
KEYS = (
    "asin",
    "name",
    "category",
    "query",
    "product_category",
    "full_description",
    "small_description",
    "customization_options",
)  # a product must have; `pricing` it may


class Files(NamedTuple):
    items: Path
    instructions: Path
    human: Path | None = None


class HumanInstruction(NamedTuple):
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str | tuple[str, str], ...]  # values, or (name, value) where the file has an object


class Product(NamedTuple):
    asin: str
    name: str
    category: str
    query: str  # the shop's search term it was found with
    product_category: str  # levels joined by " › "
    description: str
    bullets: tuple[str, ...]
    price: float
    price_tag: str
    options: dict[str, tuple[str, ...]]
    attributes: tuple[str, ...] = ()
    instruction: str | None = None  # synthetic
    instruction_attributes: tuple[str, ...] = ()
    human: tuple[HumanInstruction, ...] = ()


def files_in(folder: str | Path) -> Files:
    """The three files by their usual names; the human instructions may be absent."""
    folder = Path(folder)
    matches = [sorted(folder.glob(pattern)) for pattern in ("items_shuffle*.json", "items_ins_v2*.json")]
    for pattern, paths in zip(("items_shuffle*.json", "items_ins_v2*.json"), matches, strict=True):
        if len(paths) != 1:
            raise FileNotFoundError(
                f"{folder} has {len(paths)} files {pattern}, expected one; name the three with `Files(items, "
                "instructions, human)`, or let `catalogue.write` make a set"
            )
    human = folder / "items_human_ins.json"
    return Files(matches[0][0], matches[1][0], human if human.is_file() else None)


def read_products(files: Files, *, limit: int | None = None, seed: int = 0) -> list[Product]:
    """Products in the order of the file; of those with one asin the first, none whose asin is "nan" or over 10 long.

    `limit` is the number of records read. Unlike the original, a price drawn between two is drawn by (`seed`, asin).
    """
    loaded: dict[str, Product] = {}
    for number, record in records(files.items, "products"):
        if limit is not None and number > limit:
            break
        product = _product(_Record(files.items, number, record), seed)
        if product.asin != "nan" and len(product.asin) <= 10:
            loaded.setdefault(product.asin, product)
    for number, asin, content in members(files.instructions, "attributes by asin"):
        if asin in loaded:
            loaded[asin] = _with_attributes(loaded[asin], _Record(files.instructions, number, content))
    if files.human is not None:
        for number, asin, content in members(files.human, "lists of instructions by asin"):
            if asin in loaded:
                loaded[asin] = loaded[asin]._replace(human=_human(files.human, number, content))
    if not loaded:
        raise ValueError(f"{files.items} has no product whose asin is 1 to 10 characters long; give another file")
    return list(loaded.values())


class _Record:
    """A record with typed access to its fields, which knows its place in the file for errors."""

    def __init__(self, path: Path, number: int, content: Any) -> None:
        self.where = f"{path}: record {number}"
        if not isinstance(content, dict):
            raise self.error(f"is a {type(content).__name__}, expected an object")
        self.content = content

    def error(self, complaint: str) -> ValueError:
        return ValueError(f"{self.where} {complaint}; fix or remove that record")

    def text(self, key: str, missing: str | None = None) -> str:
        """The text under `key`; where `missing` is given, an absent key and null count as it."""
        if key not in self.content and missing is None:
            raise self.error(f"has no {key!r}, expected text")
        value = self.content.get(key)
        if value is None and missing is not None:
            return missing
        if not isinstance(value, str):
            raise self.error(f"has {key!r} of type {type(value).__name__}, expected text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of texts under `key`; absent and null count as none, one text as a list of it."""
        value = self.content.get(key) or []
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
            raise self.error(f"has {key!r} = {str(value)[:60]}, expected a list of texts")
        return tuple(value)


def _product(record: _Record, seed: int) -> Product:
    missing = [key for key in KEYS if key not in record.content]
    if missing:
        raise record.error(f"has no {', '.join(map(repr, missing))}, expected {', '.join(KEYS)}")
    asin = record.text("asin")
    price, tag = _price(record, f"{seed} price {asin}")
    return Product(
        asin=asin,
        name=record.text("name"),
        category=record.text("category"),
        query=record.text("query").lower().strip(),
        product_category=record.text("product_category"),
        description=record.text("full_description", missing=""),
        bullets=record.texts("small_description"),
        price=price,
        price_tag=tag,
        options=_options(record),
    )


def _price(record: _Record, address: str) -> tuple[float, str]:
    """The price, and its text on the page: "$19.99", "$19.99$27.99" (drawn between) or nothing (100)."""
    text = record.text("pricing", missing="")
    if not text:
        return MISSING_PRICE, f"${MISSING_PRICE}"
    try:
        prices = [float(re.sub(r"[^\d.]", "", part)) for part in text.split("$")[1:]][:2]
        low, high = prices[0], prices[-1]
    except (ValueError, IndexError):
        raise record.error(f'has \'pricing\' = {text[:60]!r}, expected "$19.99", "$19.99$27.99" or nothing') from None
    if len(prices) == 1:
        return low, f"${low}"
    return random.Random(address).uniform(low, high), f"${low} to ${high}"


def _options(record: _Record) -> dict[str, tuple[str, ...]]:
    options = record.content.get("customization_options") or {}
    if not isinstance(options, dict):
        raise record.error(f"has 'customization_options' of type {type(options).__name__}, expected an object")
    try:
        return {
            name.lower(): tuple(each["value"].strip().replace("/", " | ").lower() for each in values)
            for name, values in options.items()
            if values is not None
        }
    except (TypeError, KeyError, AttributeError):
        raise record.error(
            "has 'customization_options' without texts under 'value', expected name: [{value}]"
        ) from None


def _with_attributes(product: Product, record: _Record) -> Product:
    instruction = record.text("instruction", missing="") or None
    asked = record.texts("instruction_attributes")
    if instruction and not asked:
        raise record.error("has an 'instruction' without 'instruction_attributes', expected at least one")
    return product._replace(
        attributes=record.texts("attributes"), instruction=instruction, instruction_attributes=asked
    )


def _human(path: Path, number: int, content: Any) -> tuple[HumanInstruction, ...]:
    if not isinstance(content, list):
        raise ValueError(
            f"{path}: record {number} is a {type(content).__name__}, expected a list of instructions; fix or remove it"
        )
    asked = [_Record(path, number, each) for each in content]
    return tuple(
        HumanInstruction(each.text("instruction"), each.texts("instruction_attributes"), _requested_options(each))
        for each in asked
    )


def _requested_options(record: _Record) -> tuple[str | tuple[str, str], ...]:
    options = record.content.get("instruction_options")
    return tuple(options.items()) if isinstance(options, dict) else record.texts("instruction_options")
