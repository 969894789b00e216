"""WebShop's reward for buying (Yao et al. 2022, Section 3): type factor × share of attributes, options and price met."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from bm25s.stopwords import STOPWORDS_EN
from thefuzz.fuzz import token_set_ratio

from fedrl.llm.webshop.goals import Goal
from fedrl.llm.webshop.products import Product

Nouns = Callable[[str], tuple[str, ...]]

SIMILAR = 85  # two texts match when their token-set ratio, a whole number, is above
MODELS = ("en_core_web_lg", "en_core_web_sm")
# the colour words of the published reward; of several in one value the first of this list counts
_COLOUR_WORDS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
wheat white wine yellow
"""
COLOURS = tuple(_COLOUR_WORDS.split())


class Score(NamedTuple):
    """The terms of a purchase's reward."""

    total: float  # exactly 1 if everything is met
    r_type: float
    attributes: int  # how many of the goal's were met
    options: int
    price: int


def score(bought: Product, goal: Goal, chosen: Mapping[str, str], nouns: Nouns | None = None) -> Score:
    """r_type × (attributes met + options met + price met) / (|A| + |O| + 1) for buying with the `chosen` options."""
    r_type = type_factor(bought, goal, nouns)
    attributes = attributes_met(bought, goal.attributes)
    options = options_met(chosen.values(), goal.options)
    price = int(bought.price <= goal.price_upper)
    wanted = len(goal.attributes) + len(goal.options) + 1
    return Score(r_type * ((attributes + options + price) / wanted), r_type, attributes, options, price)


def type_factor(bought: Product, goal: Goal, nouns: Nouns | None = None) -> float:
    """1 where search term, category path or title agree; 0.5, 0.1 or 0 where they do not. A title with nothing in common
    overrides even an equal search term."""
    wanted = (nouns or title_nouns)(goal.name)
    common = len(set(wanted) & set((nouns or title_nouns)(bought.name)))
    title = common / len(wanted) if wanted else 0.2
    if title == 0.0:
        return 0.0
    if title < 0.1:
        return 0.1
    alike = bought.query == goal.query or title > 0.2 or len(_levels(bought) & _levels(goal)) >= 2
    return 1.0 if alike else 0.5


def _levels(item: Product | Goal) -> set[str]:
    return {level.strip() for level in item.product_category.split("›")}


def attributes_met(bought: Product, wanted: Iterable[str]) -> int:
    """How many are similar to one of the product's attributes, or occur in its title, bullet points or description."""
    texts = (bought.name.lower(), " ".join(bought.bullets).lower(), bought.description.lower())
    return sum(
        any(token_set_ratio(own, each) > SIMILAR for own in bought.attributes) or any(each in text for text in texts)
        for each in wanted
    )


def options_met(chosen: Iterable[str], wanted: Iterable[str | tuple[str, str]]) -> int:
    """How many are similar to one of the chosen values, after reducing both to their colours."""
    values = [colour(value) for value in chosen]
    return sum(any(token_set_ratio(value, colour(each)) > SIMILAR for value in values) for each in wanted)


def colour(option: str | tuple[str, str]) -> str | tuple[str, str]:
    """The first colour word within a text, or the option as it is.

    As published: a (name, value) pair is reduced only when its value is a colour word, and otherwise compared whole.
    """
    return next((word for word in COLOURS if word in option), option)


@lru_cache(maxsize=1 << 16)
def title_nouns(title: str) -> tuple[str, ...]:
    """Nouns and proper nouns of a title, lower case, with repetitions: by spaCy where one of `MODELS` is installed,
    otherwise all alphabetic words of two letters or more that are not stop words."""
    tagger = _tagger()
    if tagger is None:
        return tuple(word for word in re.findall(r"[^\W\d_]{2,}", title.lower()) if word not in STOPWORDS_EN)
    return tuple(word.text.lower() for word in tagger(title) if word.pos_ in ("NOUN", "PROPN"))


@cache
def _tagger() -> Any:
    model = _model()
    if model is None:
        return None
    return import_module("spacy").load(model, disable=["ner"])


def _model() -> str | None:
    return next((model for model in MODELS if find_spec("spacy") and find_spec(model)), None)


def nouns_by() -> str:
    """How nouns are found; belongs in a run's metadata."""
    return _model() or "alphabetic words without stop words"
