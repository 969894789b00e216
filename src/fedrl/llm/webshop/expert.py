"""A customer who knows the answer: the shortest way to a score of 1, for imitation and as proof that there is one."""

from fedrl.llm.webshop import pages
from fedrl.llm.webshop.goals import Goal
from fedrl.llm.webshop.pages import Profile
from fedrl.llm.webshop.products import Product
from fedrl.llm.webshop.reward import options_met, score
from fedrl.llm.webshop.search import candidates
from fedrl.llm.webshop.shop import Shop


def expert(shop: Shop, task: int, profile: Profile = pages.TEXT) -> list[str]:
    """Actions that end `task` with a score of 1: search, page on to the first product that meets everything, choose
    its options, buy. The query is the one of the `candidates` that ranks such a product best; where none finds one, the
    title of the goal's own product."""
    goal = shop.goals[task]
    for queries in (candidates(goal.instruction), (goal.name.lower(),)):
        found = [(rank, query, clicks) for query in queries for rank, clicks in _first_match(shop, goal, query)]
        if found:
            rank, query, clicks = min(found, key=lambda way: way[0])
            clicks = [pages.NEXT] * (rank // profile.per_page) + clicks
            return [f"search[{query}]", *(f"click[{what.lower()}]" for what in clicks)]
    raise LookupError(
        f"no product found scores 1 for task {task} ({goal.instruction[:80]}…), whose own is {goal.asin}; exclude this task"
    )


def _first_match(shop: Shop, goal: Goal, query: str) -> list[tuple[int, list[str]]]:
    """Rank of the first hit that meets everything, and the clicks that buy it; empty where no hit does."""
    for rank, asin in enumerate(shop.search(query)):
        chosen = _choices(shop.products[asin], goal)
        if chosen is not None and score(shop.products[asin], goal, chosen).total == 1.0:
            return [(rank, [asin, *chosen.values(), pages.BUY])]
    return []


def _choices(product: Product, goal: Goal) -> dict[str, str] | None:
    """A value of the product for each option the goal asks for, the same or else alike; None where one has none."""
    offered = [(name, value) for name, values in product.options.items() for value in values]
    chosen: dict[str, str] = {}
    for wanted in goal.options:
        same = [(name, value) for name, value in offered if wanted in (value, (name, value))]
        alike = same or [(name, value) for name, value in offered if options_met([value], [wanted])]
        if not alike:
            return None
        chosen.update(alike[:1])
    return chosen
