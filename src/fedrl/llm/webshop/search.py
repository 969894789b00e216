"""The shop's search engine: BM25 as Lucene computes it, and the queries an instruction suggests."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

import bm25s
import numpy as np
import Stemmer  # type: ignore[import-not-found]
from bm25s.stopwords import STOPWORDS_EN

from fedrl.llm.webshop.products import Product

Search = Callable[[str], tuple[str, ...]]  # query -> asins, best first

HITS = 50
_STOP = frozenset(STOPWORDS_EN)  # Lucene's 33
_LETTER, _DIGIT = r"[^\W\d_]", r"\d"
# approximately the words of Lucene's standard tokeniser: 's stays in a word, and a point or comma in a number
_WORD = re.compile(rf"\w+(?:(?<={_LETTER})['’.](?={_LETTER})\w+|(?<={_DIGIT})[.,](?={_DIGIT})\w+)*")
_PRICE = re.compile(r",? and price lower than [\d.]+ dollars$")
_HEAD = re.compile(r"\s(?:with|that|which|in)\s|,\s(?:with|in|and)\s")
_ASKING_WORDS = """
am any buy can could find get give go have i i'd i'll i'm im id like looking me my need new one ones please search
searching shop some something us want wanted which would you
"""
_ASKING = _STOP | frozenset(_ASKING_WORDS.split())


def analyse(text: str) -> list[str]:
    """Lower case, no possessive, no stop words, Porter stems."""
    words = (re.sub(r"['’]s$", "", word) for word in _WORD.findall(text.lower()))
    stems: list[str] = Stemmer.Stemmer("porter").stemWords([word for word in words if word not in _STOP])
    return stems


def document(product: Product) -> str:
    """The text indexed for a product: title, description, first bullet point and options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join([product.name, product.description, *product.bullets[:1], options]).lower()


def engine(products: Iterable[Product], *, k1: float = 0.9, b: float = 0.4, hits: int = HITS) -> Search:
    """The best `hits` products with any of the query's words, ties by asin.

    Unlike Lucene, document lengths are not rounded to one byte.
    """
    products = sorted(products, key=lambda product: product.asin)
    asins = [product.asin for product in products]
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(w, len(vocabulary)) for w in analyse(document(product))] for product in products]
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index((ids, vocabulary), show_progress=False)

    @lru_cache(maxsize=1 << 14)
    def search(query: str) -> tuple[str, ...]:
        words = [vocabulary[word] for word in analyse(query) if word in vocabulary]
        scores = index.get_scores_from_ids(words) if words else np.zeros(len(asins))
        matches = np.flatnonzero(scores > 0)
        if len(matches) > hits:
            matches = matches[scores[matches] >= np.partition(scores[matches], -hits)[-hits]]
        return tuple(asins[i] for i in matches[np.argsort(-scores[matches], kind="stable")][:hits])

    return search


def candidates(instruction: str) -> tuple[str, ...]:
    """Up to three queries made of the instruction's words, for agents that choose from a list.

    The words up to the first "with", "that", "which", "in" or the like; of those the last two, usually the product; all.
    Words of asking ("find me", "i am looking for"), stop words and the price are left out.
    """
    text = _PRICE.sub("", instruction.lower())
    head, words = _content(_HEAD.split(text, maxsplit=1)[0]), _content(text)
    queries = [head, head[-2:], words]
    return tuple(dict.fromkeys(" ".join(query) for query in queries if query)) or (text,)


def _content(text: str) -> list[str]:
    """Its words in order, each once."""
    return [word for word in dict.fromkeys(re.findall(r"\w+(?:['’.-]\w+)*", text)) if word not in _ASKING]
