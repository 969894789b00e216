"""The two applications of FedAgentGym, ready to be partitioned: environments, lists of tasks, and expert plans."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np

from fedrl.arguments import at_least, checked_class
from fedrl.llm.household import games, simulator
from fedrl.llm.household.environment import HouseholdEnv
from fedrl.llm.household.expert import expert as housekeeping
from fedrl.llm.household.game import Game
from fedrl.llm.household.generate import Size
from fedrl.llm.randomness import generator_at
from fedrl.llm.tasks import TextEnvironment
from fedrl.llm.webshop import catalogue, pages
from fedrl.llm.webshop.environment import WebShopEnv
from fedrl.llm.webshop.expert import expert as shopping
from fedrl.llm.webshop.shop import Shop, open_shop


class Application(NamedTuple):
    """Tasks are the environment's task numbers; the three lists are disjoint."""

    environment: TextEnvironment
    pool: np.ndarray  # tasks to divide among clients
    categories: list[str]  # of the pool
    held_out: np.ndarray  # tasks for evaluation
    public: np.ndarray  # tasks of the demonstrations
    expert: Callable[[int], list[str]]  # (task) -> commands that win it


@checked_class
@dataclass(frozen=True)
class WebShop:
    """The generated catalogue, or the user's files in WebShop's own format (`folder`)."""

    products: int = 600
    seed: int = 0
    folder: str = ""
    step_limit: int = 15
    held_out: int = 128
    public: int = 500
    pages: str = "compact"  # "text" or "rich": as WebShop shows them; "compact": shorter, for small models

    def __post_init__(self) -> None:
        at_least(1, products=self.products, step_limit=self.step_limit, held_out=self.held_out, public=self.public)
        at_least(0, seed=self.seed)
        if self.pages not in pages.PROFILES:
            raise ValueError(f"pages are one of {', '.join(pages.PROFILES)}, got {self.pages!r}")

    def build(self) -> Application:
        shop = _shop(self)
        numbers = generator_at(self.seed, "webshop", "split").permutation(len(shop.goals))
        if self.held_out + self.public >= len(numbers):
            raise ValueError(
                f"{len(numbers)} tasks are too few for {self.held_out} held out and {self.public} demonstrated; "
                "raise products or lower these"
            )
        held_out, public, pool = np.split(numbers, [self.held_out, self.held_out + self.public])
        return Application(
            TextEnvironment(partial(_webshop_env, self)),
            np.sort(pool),
            [shop.goals[task].category for task in np.sort(pool)],
            held_out,
            public,
            partial(_shop_expert, self),
        )


@checked_class
@dataclass(frozen=True)
class Household:
    """Generated games, or ALFWorld's own files (`folder`); the held-out games are in rooms that are not in training."""

    games: int = 2000  # of the training split, the demonstrated ones among them
    seed: int = 0
    folder: str = ""
    step_limit: int = 50
    held_out: int = 128
    public: int = 500
    size: Size = Size()
    detours: int = 3  # a demonstration visits at most this many wrong places before the right one

    def __post_init__(self) -> None:
        at_least(1, games=self.games, step_limit=self.step_limit, held_out=self.held_out, public=self.public)
        at_least(0, seed=self.seed, detours=self.detours)

    def build(self) -> Application:
        count = len(_games(self)) - self.held_out
        if self.public >= count:
            raise ValueError(f"{count} games are too few for {self.public} demonstrated ones; lower public")
        numbers = generator_at(self.seed, "household", "split").permutation(count)
        public, pool = np.split(numbers, [self.public])
        return Application(
            TextEnvironment(partial(_household_env, self)),
            np.sort(pool),
            [_games(self)[task].task_type for task in np.sort(pool)],
            np.arange(count, count + self.held_out),
            public,
            partial(_house_expert, self),
        )


@lru_cache(maxsize=2)
def _games(settings: Household) -> list[Game]:
    """Training games first, then held-out ones."""
    if settings.folder:
        train, held_out = (games.from_folder(settings.folder, split) for split in ("train", "valid_unseen"))
        if len(held_out) < settings.held_out:
            raise ValueError(f"{settings.folder} has {len(held_out)} unseen games, {settings.held_out} were asked for")
        return [*train[: settings.games], *held_out[: settings.held_out]]
    return [
        *games.generated("train", settings.games, settings.seed, size=settings.size),
        *games.generated("valid_unseen", settings.held_out, settings.seed, size=settings.size),
    ]


def _household_env(settings: Household) -> gymnasium.Env:
    return HouseholdEnv(_games(settings), step_limit=settings.step_limit)


def _house_expert(settings: Household, task: int) -> list[str]:
    """The plan, after visits to some wrong places, so that a model that imitates it learns to search, not to guess."""
    game = _games(settings)[task]
    plan, random = housekeeping(game), generator_at(settings.seed, "household", "detours", task)
    player = simulator.load(game)
    player.reset()
    other_places = [command for command in player.admissible if command.startswith("go to ") and command != plan[0]]
    detour: list[str] = []
    for place in random.permutation(other_places)[: int(random.integers(settings.detours + 1))].tolist():
        player.step(place)
        detour.append(place)
        if (opening := place.replace("go to", "open")) in player.admissible:
            player.step(opening)
            detour.append(opening)
    left_open = {command for command in detour if command.startswith("open ")}
    return [*detour, *(command for command in plan if command not in left_open)]


@lru_cache(maxsize=2)
def _shop(settings: WebShop) -> Shop:
    if settings.folder:
        return open_shop(Path(settings.folder), seed=settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        return open_shop(catalogue.write(folder, settings.products, seed=settings.seed))


def _webshop_env(settings: WebShop) -> gymnasium.Env:
    return WebShopEnv(_shop(settings), pages.PROFILES[settings.pages], step_limit=settings.step_limit)


def _shop_expert(settings: WebShop, task: int) -> list[str]:
    return shopping(_shop(settings), task, pages.PROFILES[settings.pages])
