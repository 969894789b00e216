"""Lists of games: generated ones, or the user's own files of ALFWorld."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrl.llm.household import generate
from fedrl.llm.household.game import Game
from fedrl.llm.household.phrasing import sentence
from fedrl.llm.household.tasks import BY_ALFRED, TASKS

KEYS = ("pddl_domain", "grammar", "pddl_problem")


def generated(
    split: str, count: int, seed: int = 0, types: Sequence[str] = tuple(TASKS), size: generate.Size = generate.Size()
) -> list[Game]:
    """The first `count` games of a split: train, valid_seen (the same rooms) or valid_unseen (rooms never trained in)."""
    if count < 1:
        raise ValueError(f"count must be at least one game, got {count}")
    return [generate.game(split, index, seed, types, size) for index in range(count)]


def from_folder(
    path: str | Path | None = None, split: str = "train", types: Sequence[str] = tuple(TASKS)
) -> list[Game]:
    """The games AlfredTWEnv would load: solvable ones of these types; none with movable receptacles or slices.

    `path` is ALFWorld's data folder (that of `$ALFWORLD_DATA` by default), or any folder with games somewhere in it.
    """
    folder = _folder(path, split)
    wanted = {TASKS[name].alfred for name in types}
    games = []
    for trajectory in sorted(folder.rglob("traj_data.json")):
        name = trajectory.parent.relative_to(folder).as_posix()
        file = trajectory.with_name("game.tw-pddl")
        if "movable" in name or "Sliced" in name or not file.exists():
            continue
        kind = json.loads(trajectory.read_text("utf-8"))["task_type"]
        if kind not in wanted:
            continue
        data = json.loads(file.read_text("utf-8"))
        if data.get("solvable"):
            games.append(Game(name, BY_ALFRED[kind], _sentence(data, file), path=str(file)))
    if not games:
        raise ValueError(
            f"no solvable game of type {', '.join(types)} is in {folder} (a game is a folder with traj_data.json and "
            "game.tw-pddl); run alfworld-download, or take generated games"
        )
    return games


def _folder(path: str | Path | None, split: str) -> Path:
    if split not in generate.SPLITS:
        raise ValueError(f"a split is one of {', '.join(generate.SPLITS)}, got {split!r}")
    path = path or os.environ.get("ALFWORLD_DATA")
    if not path:
        raise ValueError("from_folder needs ALFWorld's data folder; give its path or set $ALFWORLD_DATA")
    root = Path(path).expanduser()
    if (root / "json_2.1.1").is_dir():
        folder = root / "json_2.1.1" / split
    else:
        folder = root / split if (root / split).is_dir() else root
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; run alfworld-download, or take generated games")
    return folder


def _sentence(data: dict[str, Any], file: Path) -> str:
    missing = [key for key in KEYS if key not in data]
    if missing:
        raise ValueError(
            f"{file} lacks {', '.join(missing)}: it is no game of ALFWorld 0.2 or later; download it again"
        )
    return sentence(data["grammar"])
