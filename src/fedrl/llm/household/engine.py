"""ALFWorld's own engine in this process: TextWorld's planner-backed environment and ALFWorld's names for things.

The packages `alfworld` and `textworld` are imported here and nowhere else, when an engine or a file is first needed.
"""

import importlib
import importlib.resources
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedrl.llm.household import pddl
from fedrl.llm.household.expert import expert
from fedrl.llm.household.game import Game, contents, problem
from fedrl.llm.household.generate import floor_plan
from fedrl.llm.household.tasks import TASKS


class Engine:
    """`load(game)`, then as the simulator: `reset()` and `step(command)` return text; `admissible` and `won` are current."""

    def __init__(self) -> None:
        textworld = _module("textworld")
        demangler = _module("alfworld.agents.environment.alfred_tw_env").AlfredDemangler
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env: Any = demangler(_module("textworld.envs").PddlEnv(infos))

    def load(self, game: Game) -> "Engine":
        with _arguments():
            self._env.load(data(game))
        self.reset()
        return self

    def reset(self) -> str:
        with _arguments():
            return self._read(self._env.reset())

    def step(self, command: str) -> str:
        return self._read(self._env.step(command)[0])

    def _read(self, state: Any) -> str:
        self.admissible: list[str] = state["admissible_commands"]
        self.won = bool(state["won"])
        return str(state["feedback"])


def data(game: Game) -> dict[str, Any]:
    """The five entries of a game.tw-pddl; of a generated game with the domain and grammar of the installed package."""
    if game.scene is None:
        return contents(game)
    folder = importlib.resources.files(_module("alfworld")) / "data"
    domain, grammar = ((folder / name).read_text("utf-8") for name in ("alfred.pddl", "alfred.twl2"))
    return {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL", game.sentence),
        "pddl_problem": pddl.write(problem(game), "household"),
        "solvable": True,
        "walkthrough": expert(game),
    }


def export(games: Sequence[Game], folder: str | Path) -> list[Path]:
    """Write generated games as ALFWorld keeps them, for its own AlfredTWEnv: one folder each, two files in it."""
    paths = []
    for game in games:
        scene = game.scene
        if scene is None:
            raise ValueError(f"only generated games are exported, {game.name} is a file already: {game.path}")
        task, home = TASKS[game.task_type], Path(folder) / game.name
        light = game.task_type == "Look"
        trajectory = {
            "task_id": home.name,
            "task_type": task.alfred,
            "scene": {"floor_plan": f"FloorPlan{floor_plan(scene)}", "scene_num": floor_plan(scene)},
            "pddl_params": {
                "object_target": scene.thing,
                "parent_target": "" if light else scene.place,
                "toggle_target": scene.place if light else "",
                "mrecep_target": "",
                "object_sliced": False,
            },
        }
        home.mkdir(parents=True, exist_ok=True)
        (home / "traj_data.json").write_text(json.dumps(trajectory), "utf-8")
        (home / "game.tw-pddl").write_text(json.dumps(data(game)), "utf-8")
        paths.append(home / "game.tw-pddl")
    return paths


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise ImportError(
            f"ALFWorld's engine and files need the packages alfworld and textworld[pddl] ({missing}); "
            'install them, or play with player="simulator"'
        ) from missing


@contextmanager
def _arguments() -> Iterator[None]:
    """Restore the program's arguments, which the planner's translator overwrites."""
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments
