"""`run.toml`: which run a folder holds, and the package versions it was started with."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from fedrl.errors import FedRLError
from fedrl.records.identity import Config, differences, versions

REPEATS = "# `fedrl run` with this file repeats the run.\n"
DESCRIBES = (
    "# Describes the run in this folder. `fedrl.train(..., out=...)` continues it only if all of this is the same.\n"
)


class RunFolderError(FedRLError, ValueError):
    """The folder cannot be used as asked; the message is one sentence for the user."""


def read_config(path: str | Path) -> Config:
    """The config in a `run.toml`, or in that of a run folder, without the versions."""
    return {name: value for name, value in _read(Path(path)).items() if name != "versions"}


def folder_of(path: Path) -> Path:
    """The run's folder, given by itself or by its TOML file; another file stays itself, so that reading it is refused."""
    return path.parent if path.suffix == ".toml" and path.is_file() else path


def is_trained(config: Config) -> bool:
    """Whether a config was written by `fedrl.train`, not for a recipe."""
    return config.get("kind") == "train" and "recipe" not in config


def is_of_organisations(folder: Path) -> bool:
    """Whether `folder` has the run of a federation between organisations: it describes its method by the agreed tables."""
    if not (folder / "run.toml").exists():
        return False
    config = read_config(folder)
    method = config.get("method")
    return is_trained(config) and isinstance(method, dict) and "tables" in method


def run_of_arm(place: str | Path) -> Path | None:
    """The folder of the recipe's run that the folder `place` is an arm of; None for any other folder."""
    place = Path(place) if Path(place).parent.name == "arms" else Path(place).absolute()
    home = place.parent.parent
    is_arm = place.parent.name == "arms" and (home / "run.toml").exists() and not is_trained(read_config(home))
    return home if is_arm else None


def is_of_first_versions(path: str | Path) -> bool:
    """Whether a folder holds a run of `fedrl.train` from before there was a run.toml."""
    path = Path(path)
    return (path / "seeds.json").exists() and not (path / "run.toml").exists()


def other_versions(path: str | Path) -> dict[str, str]:
    """The packages whose version has changed since the run was started: "0.1.0 there, 0.2.0 here"."""
    there, here = _read(Path(path)).get("versions", {}), versions()
    return {
        name: f"{there[name]} there, {here[name]} here"
        for name in here
        if isinstance(there, dict) and name in there and there[name] != here[name]
    }


def version_note(path: str | Path) -> str | None:
    """The warning for continuing or repeating a run that was started with other versions."""
    others = ", ".join(f"{name} is {pair}" for name, pair in other_versions(path).items())
    return f"{path} was started with other versions ({others}); numbers may differ from then on" if others else None


def to_toml(config: Config) -> bytes:
    try:
        content = tomli_w.dumps(config | {"versions": versions()})
    except TypeError as error:
        raise TypeError(
            f"config must hold text, numbers, booleans, lists and dicts only ({error}); convert it first"
        ) from None
    return ((DESCRIBES if is_trained(config) else REPEATS) + content).encode()


def what_differs(path: Path, config: Config) -> list[str]:
    """What differs between the run in `path` and `config`, as phrases; none if they are the same run.

    If versions differ, a setting that only one side has is no difference: the package may have gained or lost it.
    """
    return list(differences(read_config(path), config, lenient=bool(other_versions(path))))


def _read(path: Path) -> dict[str, Any]:
    path = path / "run.toml" if path.is_dir() else path
    if path.suffix == ".py":
        raise RunFolderError(f"{path} is a Python file; pass the folder of a run, such as runs/{path.stem}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFolderError(f"cannot read {path} ({error.strerror}); pass a run.toml or a run folder") from None
    except ValueError as error:
        raise RunFolderError(f"{path} is not valid TOML ({error}); fix that place") from None
