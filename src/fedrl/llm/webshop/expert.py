"""An expert customer: the shortest way to a score of 1, for imitation and as proof that it exists."""

from fedrl.llm.webshop import pages
from fedrl.llm.webshop.goals import Goal
from fedrl.llm.webshop.pages import Profile
from fedrl.llm.webshop.products import Product
from fedrl.llm.webshop.reward import options_met, score
from fedrl.llm.webshop.search import candidates
from fedrl.llm.webshop.shop import Shop


def expert(shop: Shop, task: int, profile: Profile = pages.TEXT) -> list[str]:
    """Actions that end `task` with a score of 1: search, go on to the first product that meets all requirements,
    choose its options, buy. The query is the one of the `candidates` that ranks such a product best; if none finds one, the
    title of the goal's own product."""
    goal = shop.goals[task]
    for queries in (candidates(goal.instruction), (goal.name.lower(),)):
        matches = [(rank, query, clicks) for query in queries for rank, clicks in _first_match(shop, goal, query)]
        if matches:
            rank, query, clicks = min(matches, key=lambda way: way[0])
            clicks = [pages.NEXT] * (rank // profile.per_page) + clicks
            return [f"search[{query}]", *(f"click[{button.lower()}]" for button in clicks)]
    raise LookupError(
        f"no product found scores 1 for task {task} ({goal.instruction[:80]}…), whose own is {goal.asin}; exclude this task"
    )


def _first_match(shop: Shop, goal: Goal, query: str) -> list[tuple[int, list[str]]]:
    """Rank of the first hit that meets all requirements, and the clicks that buy it; empty if there is none."""
    for rank, asin in enumerate(shop.search(query)):
        chosen = _choices(shop.products[asin], goal)
        if chosen is not None and score(shop.products[asin], goal, chosen).total == 1.0:
            return [(rank, [asin, *chosen.values(), pages.BUY])]
    return []


def _choices(product: Product, goal: Goal) -> dict[str, str] | None:
    """A value of the product for each option of the goal, equal or else similar; None if one is missing."""
    values = [(name, value) for name, values in product.options.items() for value in values]
    chosen: dict[str, str] = {}
    for wanted in goal.options:
        equal = [(name, value) for name, value in values if wanted in (value, (name, value))]
        alike = equal or [(name, value) for name, value in values if options_met([value], [wanted])]
        if not alike:
            return None
        chosen.update(alike[:1])
    return chosen
