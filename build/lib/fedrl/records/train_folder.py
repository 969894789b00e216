"""Whether `fedrl.train(..., out=folder)` may use a folder: a new one, or one that holds the same run."""

import json
from pathlib import Path

from fedrl.records.identity import CODE, Config
from fedrl.records.run_toml import RunFolderError, is_trained, read_config, what_differs

OLD = "seeds.json"  # all that earlier versions wrote down of a run
FILES = ("run.toml", "log.jsonl", "policy.safetensors", "returns.safetensors")
MOST = 3  # differences that are named
OTHER = "go on with what it was begun with, or give another out"
FIXED = "delete that `code` line from run.toml if you fixed a fault and want to go on, or give another out"


def check(path: Path, config: Config) -> None:
    """Raise unless `path` is missing, has nothing of a run, or holds the run that `config` describes."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunFolderError(f"{path} is a file, and a run needs a folder; give another out")
    _check_files(path)
    if not (path / "run.toml").exists():
        _check_without(path, config)
        return
    there = read_config(path)
    if not is_trained(there):
        held = (
            f"a run of the recipe {there['recipe']!r}" if "recipe" in there else "a run.toml that train did not write"
        )
        raise RunFolderError(f"{path} holds {held}; give another out")
    if found := what_differs(path, config):
        more = f", and {len(found) - MOST} more" if len(found) > MOST else ""
        move = FIXED if all(phrase.startswith(CODE) for phrase in found) else OTHER
        raise RunFolderError(f"{path} holds a different run ({'; '.join(found[:MOST])}{more}); {move}")


def _check_files(path: Path) -> None:
    """What has the name of a run's file must be one, before all rounds are played for nothing."""
    for name in FILES:
        if (path / name).exists() and not (path / name).is_file():
            raise RunFolderError(f"{path / name} is a folder, wanted a run's file; move it away or give another out")
    if (path / "checkpoint").exists() and not (path / "checkpoint").is_dir():
        raise RunFolderError(f"{path / 'checkpoint'} is a file, wanted a folder; move it away or give another out")


def check_before_starting_again(path: Path) -> None:
    """Without a checkpoint a run starts again from nothing, which must not cost a finished one its log."""
    if (path / "policy.safetensors").exists():
        raise RunFolderError(
            f"{path} holds a finished policy but no whole checkpoint to go on from; put its checkpoint folder back, look "
            "at it with fedrl.load, or give another out"
        )


def note(path: Path) -> str | None:
    """The warning that a folder of an earlier version deserves."""
    if (path / "run.toml").exists():
        return None
    return f"{path} was begun by an earlier version and does not say which method and federation it holds; going on"


def _check_without(path: Path, config: Config) -> None:
    """A folder without run.toml: of an earlier version, which wrote down the seeds, or of no run at all."""
    if not (path / OLD).exists():
        if (path / "log.jsonl").exists():
            raise RunFolderError(f"{path} has a log.jsonl but no run.toml that says of which run; give another out")
        return
    try:
        there = json.loads((path / OLD).read_text(encoding="utf-8"))
        first, count = (_whole(there[name]) for name in ("first", "count"))
    except (ValueError, KeyError, TypeError):
        raise RunFolderError(
            f'{path / OLD} is damaged, wanted {{"first": 0, "count": 1}} or the like; correct it or give another out'
        ) from None
    if (first, count) != (config["seed"], config["seeds"]):
        raise RunFolderError(
            f"{path} holds a run of {count} seeds from {first} on, {config['seeds']} from {config['seed']} on were asked "
            "for; give another out"
        )


def _whole(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"wanted a whole number, got {number!r}")
    return number
