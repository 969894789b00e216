"""The search engine against Lucene's formula written out, and the queries an instruction suggests."""

import math
from collections import Counter

import pytest

from fedrl.llm.webshop.products import Product
from fedrl.llm.webshop.search import analyse, candidates, document, engine


def product(asin, name, **more):
    fields = {"description": "", "bullets": (), "options": {}} | more
    return Product(asin, name, "c", "q", "p", price=1.0, price_tag="$1.0", **fields)


def bm25(query, documents, k1=0.9, b=0.4):
    """Σ idf · tf / (tf + k1 (1 − b + b · length / mean length)), idf = ln(1 + (N − n + ½) / (n + ½))."""
    counts = [Counter(analyse(text)) for text in documents]
    mean = sum(sum(each.values()) for each in counts) / len(counts)
    scores = [0.0] * len(documents)
    for word in analyse(query):
        n = sum(word in each for each in counts)
        idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
        for i, each in enumerate(counts):
            scores[i] += idf * each[word] / (each[word] + k1 * (1 - b + b * sum(each.values()) / mean))
    return scores


def test_words():
    assert analyse("The Women's running SHOES, size 6.5 (D.O.N.) for 1,000 days") == [
        "women",
        "run",
        "shoe",
        "size",
        "6.5",
        "d.o.n",
        "1,000",
        "dai",
    ]


def test_document_is_title_description_first_bullet_and_options(small_shop):
    assert document(small_shop.products["B00AAA0001"]) == (
        "hillbrook walking boots for women, water resistant sturdy boots with a rubber sole for wet paths. rubber sole "
        "size: 6 wide, 7 | 8, and color: navy, burgundy"
    )


def test_rare_words_many_times_in_short_texts_come_first():
    shop = [
        product("A", "blue chair"),
        product("B", "chair, chair, chair"),
        product("C", "red velvet chair with a very long name that goes on and on about velvet"),
        product("D", "velvet"),
        product("E", "table", bullets=("nothing", "velvet chair")),
    ]
    search = engine(shop)
    # lengths 2, 3, 9, 1, 2, mean 3.4; idf of velvet ln(1 + 3.5/2.5) = 0.875, of chair ln(1 + 2.5/3.5) = 0.539
    assert search("velvet") == ("D", "C")  # tf parts 0.608, 0.573
    assert search("chairs") == ("B", "A", "C")  # 0.778, 0.571, 0.401
    assert search("velvet chairs") == ("C", "D", "B", "A")  # 0.718, 0.532, 0.419, 0.308
    assert search("sofa") == search("the") == search("") == ()


def test_saturation_is_that_of_k1():
    """Nine texts of six words. Once a rare word: 1.897 / 1.9 = 0.998; six times a common one: 1.050 · 6 / 6.9 = 0.913.

    From k1 = 1.15 on it is the other way round."""
    texts = ["rare x x x x x", "common " * 6, *["common x x x x x"] * 2, *["x x x x x x"] * 5]
    shop = [product(f"{9 - i}", text) for i, text in enumerate(texts)]
    assert engine(shop)("rare common") == ("9", "8", "6", "7")
    assert engine(shop, k1=1.2)("rare common") == ("8", "9", "6", "7")


def test_equal_scores_by_asin():
    assert engine([product(asin, "lamp") for asin in ("B", "C", "A")])("lamp") == ("A", "B", "C")


@pytest.mark.parametrize("query", ["slim fit running shoes", "navy coffee table", "free", "hair hair dryer jumbo mini"])
def test_ranks_are_those_of_the_formula(shop, query):
    asins, documents = zip(*((asin, document(each)) for asin, each in shop.products.items()), strict=True)
    scores = dict(zip(asins, bm25(query, documents), strict=True))
    best = sorted((s for s in scores.values() if s > 0), reverse=True)[:50]
    for hits in (shop.search(query), engine(shop.products.values())(query)):
        assert len(hits) == len(set(hits)) == len(best)
        assert [scores[asin] for asin in hits] == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("instruction", "queries"),
    [
        (
            "Find me slim fit, quick drying running shoes with color: navy, and size: 6.5, and price lower than 9 dollars",
            (
                "slim fit quick drying running shoes",
                "running shoes",
                "slim fit quick drying running shoes color navy size 6.5",
            ),
        ),
        ("i am looking for a tea-tree soap", ("tea-tree soap",)),
        ("i'd like soap that is vegan, and price lower than 10.00 dollars", ("soap", "soap vegan")),
        ("please", ("please",)),
    ],
)
def test_candidates(instruction, queries):
    assert candidates(instruction) == queries
