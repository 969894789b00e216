"""The shop's pages: their elements, what can be clicked, where a click leads, and how a page reads as text."""

import re
from collections.abc import Callable
from typing import NamedTuple

from fedrl.llm.webshop.goals import Goal
from fedrl.llm.webshop.products import Product
from fedrl.llm.webshop.search import Search

BACK, NEXT, PREVIOUS, BUY = "Back to Search", "Next >", "< Prev", "Buy Now"
_ACTION = re.compile(r"\s*(search|click)\[\s*(.*?)\s*\]\s*", re.IGNORECASE | re.DOTALL)


class Page(NamedTuple):
    """Where a customer is. `kind` is search, results, item, done, or the name of a sub-page of an item."""

    kind: str
    goal: Goal
    hits: tuple[str, ...] = ()
    number: int = 1  # of the results page, from 1
    product: Product | None = None
    chosen: tuple[tuple[str, str], ...] = ()  # (option, value)
    seen: frozenset[str] = frozenset()  # products opened since the last visit to the search page
    score: float = 0.0


class Element(NamedTuple):
    """Something to read on a page: plain "text", a "button", a product's "link", or the value of an "option"."""

    kind: str
    text: str
    marked: bool = False  # an option chosen, a link followed
    option: str = ""  # the option's name


class Profile(NamedTuple):
    """How pages look to an agent."""

    render: Callable[[Page, list[Element]], str]
    per_page: int = 10
    title_words: int | None = None  # None: whole titles
    sub_pages: tuple[str, ...] = ("Description", "Features", "Reviews")
    instruction: bool = True  # on every page, or only on the search page


def parse(action: str) -> tuple[str, str] | None:
    """("search" or "click", what), in lower case; None where the action has neither form."""
    match = _ACTION.fullmatch(action)
    return (match[1].lower(), match[2].lower()) if match and match[2] else None


def elements(page: Page, products: dict[str, Product], profile: Profile) -> list[Element]:
    """The elements of the page, in WebShop's order."""
    if page.kind == "done":
        return [
            _text("Thank you for shopping with us!"),
            _text("Your score (min 0.0, max 1.0)"),
            _text(str(page.score)),
        ]
    task = [_text("Instruction:"), _text(page.goal.instruction)]
    if page.kind == "search":
        return [_text("WebShop"), *task, Element("search", "Search")]
    top = [*(task if profile.instruction else []), Element("button", BACK)]
    if page.kind == "results":
        return top + _results(page, products, profile)
    assert page.product is not None
    top.append(Element("button", PREVIOUS))
    if page.kind == "item":
        return top + _item(page, page.product, profile)
    return top + [_text(line) for line in _sub_page(page.kind, page.product)]


def _text(text: str) -> Element:
    return Element("text", text)


def _results(page: Page, products: dict[str, Product], profile: Profile) -> list[Element]:
    start = (page.number - 1) * profile.per_page
    shown = [_text(f"Page {page.number} (Total results: {len(page.hits)})")]
    if page.number > 1:
        shown.append(Element("button", PREVIOUS))
    if start + profile.per_page < len(page.hits):
        shown.append(Element("button", NEXT))
    for asin in page.hits[start : start + profile.per_page]:
        product = products[asin]
        shown.append(Element("link", asin, asin in page.seen))
        shown += [_text(_title(product, profile)), _text(product.price_tag)]
    return shown


def _title(product: Product, profile: Profile) -> str:
    """The whole title, or its first words in lower case, as in instructions."""
    if profile.title_words is None:
        return product.name
    return " ".join(product.name.lower().split()[: profile.title_words])


def _item(page: Page, product: Product, profile: Profile) -> list[Element]:
    shown = []
    for name, values in product.options.items():
        shown.append(_text(name))
        shown += [Element("option", value, (name, value) in page.chosen, name) for value in values]
    shown += [_text(_title(product, profile)), _text(f"Price: {product.price_tag}"), _text("Rating: N.A.")]
    return shown + [Element("button", button) for button in (*profile.sub_pages, BUY)]


def _sub_page(kind: str, product: Product) -> tuple[str, ...]:
    """Lines of a sub-page; WebShop's three files hold no reviews."""
    return {
        "Description": (product.description or "No Description",),
        "Features": product.bullets or ("No Features",),
        "Reviews": ("No reviews found",),
        "Attributes": (*product.attributes, product.category, product.query, product.product_category),
    }[kind]


def clickables(shown: list[Element]) -> dict[str, Element]:
    """The valid arguments of `click[...]`: buttons, then products, then options; of equal texts the last counts."""
    order = ("button", "link", "option")
    return {element.text.lower(): element for kind in order for element in shown if element.kind == kind}


def after_search(page: Page, query: str, search: Search) -> Page:
    """The first page of results; product and options chosen before are forgotten."""
    return Page("results", page.goal, search(query), seen=page.seen)


def after_click(page: Page, clicked: Element, products: dict[str, Product]) -> Page:
    """The page a click on one of the `clickables` leads to; for "Buy Now" the one to be paid for."""
    if clicked.kind == "link":
        return page._replace(kind="item", product=products[clicked.text], chosen=(), seen=page.seen | {clicked.text})
    if clicked.kind == "option":
        chosen = {**dict(page.chosen), clicked.option: clicked.text}
        return page._replace(chosen=tuple(chosen.items()))
    if clicked.text == BACK:
        return Page("search", page.goal)
    if clicked.text == NEXT:
        return page._replace(number=page.number + 1)
    if clicked.text == BUY:
        return page._replace(kind="done")
    if clicked.text != PREVIOUS:
        return page._replace(kind=clicked.text)
    if page.kind == "results":
        return page._replace(number=page.number - 1)
    if page.kind == "item":
        return page._replace(kind="results", product=None, chosen=())
    return page._replace(kind="item")


def plain(page: Page, shown: list[Element]) -> str:
    """WebShop's mode "text"."""
    return " [SEP] ".join(element.text.strip() for element in shown)


def rich(page: Page, shown: list[Element]) -> str:
    """WebShop's mode "text_rich": one line each, buttons between marks, those chosen before also named at the top."""
    lines: list[str] = []
    clicked: list[str] = []
    for element in shown:
        if element.kind == "text":
            lines.append(element.text)
            continue
        before = {"link": "\n", "option": "  "}.get(element.kind, "")
        mark = "clicked button" if element.marked else "button"
        lines.append(f"{before}[{mark}] {element.text} [{mark}_]")
        if element.marked and element.kind == "option":
            clicked.insert(0, f"You have clicked {element.text}.")
    return "\n".join(clicked + lines) + "\n"


def compact(page: Page, shown: list[Element]) -> str:
    """Few tokens for a small model: every clickable as [its text], and "buy now" never the last of them."""
    if page.kind == "search":
        return f"Task: {page.goal.instruction}"
    if page.kind == "done":
        return f"Bought. Score: {page.score:.2f}"
    buttons = [f"[{element.text.lower()}]" for element in shown if element.kind == "button"]
    texts = [element.text for element in shown if element.kind == "text"]
    if page.kind == "results":
        links = [f"[{element.text.lower()}]" for element in shown if element.kind == "link"]
        lines = [f"{link} {title} {tag}" for link, title, tag in zip(links, texts[1::2], texts[2::2], strict=True)]
        return "\n".join([" ".join(buttons), *lines])
    if page.kind == "item":
        assert page.product is not None
        title, price = texts[-3], texts[-2]
        return "\n".join([title, price, " ".join(reversed(buttons)), *_choices(page, page.product)])
    return "\n".join([" ".join(buttons), *texts])


def _choices(page: Page, product: Product) -> list[str]:
    chosen = dict(page.chosen)
    return [
        (f"{name} = {chosen[name]}: " if name in chosen else f"{name}: ") + " ".join(f"[{value}]" for value in values)
        for name, values in product.options.items()
    ]


TEXT = Profile(plain)
TEXT_RICH = Profile(rich)
COMPACT = Profile(compact, per_page=4, title_words=12, sub_pages=("Features",), instruction=False)
PROFILES = {"text": TEXT, "rich": TEXT_RICH, "compact": COMPACT}
