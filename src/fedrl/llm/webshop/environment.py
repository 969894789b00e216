"""WebShop as a Gymnasium environment whose observations and actions are text."""

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from fedrl.llm.webshop import pages
from fedrl.llm.webshop.pages import Page, Profile
from fedrl.llm.webshop.reward import score
from fedrl.llm.webshop.search import candidates
from fedrl.llm.webshop.shop import Shop

LONGEST_PAGE, LONGEST_ACTION = 100_000, 1_000  # characters


class WebShopEnv(gymnasium.Env[str, str]):
    """One customer in a `shop`, with `tasks` (numbers of its goals; all by default) to draw from at each reset.

    Actions are `search[words]` on the search page and `click[what]` elsewhere; any other leaves the page as it is. The
    reward is the score of what is bought and comes at buying, which ends the episode; so do `step_limit` steps.

    `info` has `admissible_commands` (for searching a few queries made of the instruction's words; `search` says that any
    other may be typed), `goal`, `task`, `task_type` (the product's category), `score` and `won` (a score of 1).
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, shop: Shop, profile: Profile = pages.TEXT, *, step_limit: int = 15, tasks: Sequence[int] | None = None
    ) -> None:
        self.shop, self.profile, self.step_limit = shop, profile, step_limit
        self.tasks = range(len(shop.goals)) if tasks is None else tasks
        if not len(self.tasks):
            raise ValueError("a customer without tasks cannot shop; give at least one number of a goal in `tasks`")
        self.observation_space = Text(LONGEST_PAGE, charset=shop.characters)
        self.action_space = Text(LONGEST_ACTION, charset=shop.characters)
        self.page: Page | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode of the task in `options={"task": i}`, or of one drawn by `seed`."""
        super().reset(seed=seed)
        random_task = self.tasks[int(self.np_random.integers(len(self.tasks)))]
        self.task = int((options or {}).get("task", random_task))
        if not 0 <= self.task < len(self.shop.goals):
            raise ValueError(f"there is no task {self.task}; this shop has tasks 0 to {len(self.shop.goals) - 1}")
        self.steps = 0
        self.page = Page("search", self.shop.goals[self.task])
        return self._look(self.page)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.page is None or self.page.kind == "done" or self.steps >= self.step_limit:
            raise RuntimeError("this episode is over, or none was begun; call `reset` first")
        self.steps += 1
        self.page = self._after(self.page, action)
        bought = self.page.kind == "done"
        text, info = self._look(self.page)
        return text, self.page.score, bought, not bought and self.steps >= self.step_limit, info

    def _after(self, page: Page, action: str) -> Page:
        command = pages.parse(action)
        if command is None:
            return page
        verb, what = command
        if verb == "search":
            return pages.after_search(page, what, self.shop.search) if page.kind == "search" else page
        clicked = self.clickables.get(what)
        if clicked is None:
            return page
        page = pages.after_click(page, clicked, self.shop.products)
        if page.kind == "done":
            assert page.product is not None
            page = page._replace(score=score(page.product, page.goal, dict(page.chosen)).total)
        return page

    def _look(self, page: Page) -> tuple[str, dict[str, Any]]:
        shown = pages.elements(page, self.shop.products, self.profile)
        self.clickables = pages.clickables(shown)
        commands = [f"click[{text}]" for text in self.clickables]
        searching = page.kind == "search"
        if searching:
            commands = [f"search[{query}]" for query in candidates(page.goal.instruction)]
        return self.profile.render(page, shown), {
            "admissible_commands": commands,
            "search": searching,
            "goal": page.goal.instruction,
            "task": self.task,
            "task_type": page.goal.category,
            "score": page.score,
            "won": page.score == 1.0,
        }
