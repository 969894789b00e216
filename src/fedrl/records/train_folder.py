"""Whether `fedrl.train(..., out=folder)` may use a folder: a new one, or one that holds the same run."""

import json
from pathlib import Path

from fedrl.records.identity import CODE, Config
from fedrl.records.run_toml import RunFolderError, is_trained, read_config, what_differs

OLD = "seeds.json"  # all that earlier versions recorded of a run
FILES = ("run.toml", "log.jsonl", "policy.safetensors", "returns.safetensors")
MOST = 3  # differences listed in a message
OTHER = "continue with the original settings, or give another out"
FIXED = "delete that `code` line from run.toml if you fixed a bug and want to continue, or give another out"


class DifferentRun(RunFolderError):
    """The folder holds another run; what to do about it depends on who asked."""

    def __init__(self, found: str, move: str):
        super().__init__(f"{found}; {move}")
        self.found = found


def check(path: Path, config: Config) -> None:
    """Raise unless `path` is missing, has no files of a run, or holds the run that `config` describes."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunFolderError(f"{path} is a file, and a run needs a folder; give another out")
    _check_files(path)
    if not (path / "run.toml").exists():
        _check_without(path, config)
        return
    stored = read_config(path)
    if not is_trained(stored):
        content = (
            f"a run of the recipe {stored['recipe']!r}" if "recipe" in stored else "a run.toml that train did not write"
        )
        raise RunFolderError(f"{path} holds {content}; give another out")
    if different := what_differs(path, config):
        more = f", and {len(different) - MOST} more" if len(different) > MOST else ""
        move = FIXED if all(phrase.startswith(CODE) for phrase in different) else OTHER
        raise DifferentRun(f"{path} holds a different run ({'; '.join(different[:MOST])}{more})", move)


def _check_files(path: Path) -> None:
    """A folder in the place of a run's file would be noticed only after the last round."""
    for name in FILES:
        if (path / name).exists() and not (path / name).is_file():
            raise RunFolderError(
                f"{path / name} is a folder, expected a file of the run; move it away or give another out"
            )
    if (path / "checkpoint").exists() and not (path / "checkpoint").is_dir():
        raise RunFolderError(f"{path / 'checkpoint'} is a file, expected a folder; move it away or give another out")


def check_before_starting_again(path: Path) -> None:
    """Without a checkpoint a run starts from scratch, which must not destroy the log of a finished one."""
    if (path / "policy.safetensors").exists():
        raise RunFolderError(
            f"{path} holds a finished policy but no whole checkpoint to continue from; restore its checkpoint folder, read "
            "the run with fedrl.load, or give another out"
        )


def note(path: Path) -> str | None:
    """The warning for a folder written by an earlier version."""
    if (path / "run.toml").exists():
        return None
    return f"{path} was started by an earlier version and does not record its method and federation; continuing anyway"


def _check_without(path: Path, config: Config) -> None:
    """A folder without run.toml: of an earlier version, which recorded only the seeds, or of no run at all."""
    if not (path / OLD).exists():
        if (path / "log.jsonl").exists():
            raise RunFolderError(f"{path} has a log.jsonl but no run.toml to say which run it is; give another out")
        return
    try:
        stored = json.loads((path / OLD).read_text(encoding="utf-8"))
        first, count = (_whole(stored[name]) for name in ("first", "count"))
    except (ValueError, KeyError, TypeError):
        raise RunFolderError(
            f'{path / OLD} is damaged, expected something like {{"first": 0, "count": 1}}; correct it or give another out'
        ) from None
    if (first, count) != (config["seed"], config["seeds"]):
        raise RunFolderError(
            f"{path} holds a run of {count} seeds from {first} on, {config['seeds']} from {config['seed']} on were asked "
            "for; give another out"
        )


def _whole(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"expected a whole number, got {number!r}")
    return number
