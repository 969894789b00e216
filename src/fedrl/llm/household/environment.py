"""Household tasks as a Gymnasium environment of text: a list of games that are chosen by index."""

import string
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gymnasium
from gymnasium.spaces import Text

from fedrl.llm.household import simulator
from fedrl.llm.household.engine import Engine
from fedrl.llm.household.game import Game

LONGEST_OBSERVATION, LONGEST_COMMAND = 8192, 256


class Player(Protocol):
    """The interface that the simulator and ALFWorld's engine share."""

    won: bool

    @property
    def admissible(self) -> list[str]: ...

    def reset(self) -> str: ...

    def step(self, command: str) -> str: ...


class HouseholdEnv(gymnasium.Env[str, str]):
    """One game at a time. Winning pays 1 and ends it, `step_limit` steps truncate it; an inadmissible command does nothing.

    "help" is answered, but as in the paper's release it is not among the offered commands.

    `reset(options={"task": i})` opens game i, else one is drawn. `player` is "simulator" or "alfworld".
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, games: Sequence[Game], player: str = "simulator", step_limit: int = 50) -> None:
        if not games:
            raise ValueError("HouseholdEnv needs at least one game; see fedrl.llm.household.games")
        if step_limit < 1:
            raise ValueError(f"step_limit must be at least 1, got {step_limit}; ALFWorld's is 50")
        if player not in ("simulator", "alfworld"):
            raise ValueError(f'player is "simulator" or "alfworld", got {player!r}')
        self.games, self.step_limit = games, step_limit
        self._load: Callable[[Game], Player] = simulator.load if player == "simulator" else Engine().load
        self._player: Player | None = None
        self._task, self._steps, self._over = -1, 0, True
        self.observation_space = Text(LONGEST_OBSERVATION, min_length=0, charset=string.printable)
        self.action_space = Text(LONGEST_COMMAND, min_length=0, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        task = (options or {}).get("task")
        if task is None:
            task = int(self.np_random.integers(len(self.games)))
        if not 0 <= task < len(self.games):
            raise ValueError(f"options['task'] must be a game from 0 to {len(self.games) - 1}, got {task}")
        if self._player is None or task != self._task:
            self._player, self._task = self._load(self.games[task]), task
        text = self._player.reset()
        self._steps, self._over = 0, False
        return text, self._info(self._player)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._player is None or self._over:
            raise gymnasium.error.ResetNeeded("the game is over or has not begun; call reset() before step()")
        text = self._player.step(action)
        self._steps += 1
        won = self._player.won
        truncated = not won and self._steps >= self.step_limit
        self._over = won or truncated
        return text, float(won), won, truncated, self._info(self._player)

    def _info(self, player: Player) -> dict[str, Any]:
        game = self.games[self._task]
        return {
            "admissible_commands": [command for command in player.admissible if command != "help"],
            "won": player.won,
            "score": float(player.won),
            "goal": game.sentence,
            "task_type": game.task_type,
            "task": self._task,
        }
