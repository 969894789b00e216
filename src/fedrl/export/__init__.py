"""A learnt policy as a file that needs no fedrl: NumPy, ONNX or PyTorch. Nothing is written unless it acts the same."""

import difflib
import importlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedrl.environments.errors import EnvironmentFailed
from fedrl.export import check
from fedrl.export.check import EPISODES, OBSERVATIONS, Agreement, NotPlayed, Play, Played
from fedrl.export.check import ExportError as ExportError
from fedrl.export.program import FORMAT, program
from fedrl.policies.saved import SavedPolicy
from fedrl.records.tensors import write_atomically

SUFFIXES = {"numpy": ".py", "onnx": ".onnx", "torch": ".pt2"}
PACKAGES = {
    "numpy": {},
    "onnx": {"onnx": "pip install 'fedrl[export]'", "onnxruntime": "pip install 'fedrl[export]'"},
    "torch": {"torch": "pip install 'torch>=2.13'"},
}
ABOUT = ("fedrl", "method", "rounds", "policy")  # entries of the policy's header that the file repeats
MARK = FORMAT.partition("/")[0].encode()  # in every exported file
AGENTS = ("peft", "merged")  # formats of language agents (`llm.export`)


class ExportReport(NamedTuple):
    """The file, and how it was checked."""

    path: Path
    format: str
    drawn: Agreement  # on drawn observations
    played: Played | None
    not_played: str | None  # why no episodes were played


def export(
    saved: SavedPolicy,
    path: str | Path,
    format: str | None = None,
    *,
    client: int | None = None,
    seed: int = 0,
    episodes: Play | None = None,
    origin: dict[str, Any] | None = None,
    observation_space: Any = None,
    action_space: Any = None,
) -> ExportReport:
    """Write the policy to `path` in a `format` ("numpy", "onnx", "torch"; None: by the suffix), once it is checked.

    The file's actions and what they are chosen by are compared with the original's on 10,000 observations, and in ten
    episodes where `episodes` can play them (else the report says why not): continuous numbers to 1e-6 (relative above one,
    and never less than two rounding errors of the network in single precision), whole numbers equal but for ties. If they
    differ, nothing is written. `origin` (the recipe, say) is added to what the file says of itself.
    """
    path = Path(path)
    format = format_of(path, format)
    if path.is_dir():
        raise ExportError(f"{path} is a folder, expected a file; write {path / ('policy' + SUFFIXES[format])}")
    if os.path.lexists(path) and (not path.is_file() or MARK not in path.read_bytes()):  # a device is no file either
        raise ExportError(f"{path} exists and is not an export that could be replaced; pass another path, or remove it")
    header = saved.header
    act = saved.policy(client, seed, observation_space=observation_space, action_space=action_space)
    about: dict[str, Any] = {key: header[key] for key in ABOUT if key in header}
    about |= {"client": client, "seed": header["seeds"]["first"] + seed} | (origin or {})
    steps = program(act, header["policy"].get("filter", {}).get("clip", 0.0), about)
    module = _module(format)
    content = module.dump(steps, path.stem)
    exported = module.load(content, steps)
    drawn = check.compare(act, exported, steps, check.draw(steps, OBSERVATIONS, np.random.default_rng(0)))
    _demand(drawn, format, f"{drawn.observations} observations")
    played = not_played = None
    try:
        played = check.play(act, exported, steps, _may_play(episodes, observation_space, action_space))
    except (NotPlayed, EnvironmentFailed) as error:
        not_played = str(error)
    if played:
        _demand(played.agreement, format, f"{EPISODES} episodes")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise ExportError(f"cannot write {path} ({error.strerror}); pass a path that you may write to") from None
    return ExportReport(path, format, drawn, played, not_played)


def _may_play(episodes: Play | None, *own_spaces: Any) -> Play:
    if episodes is None:
        raise NotPlayed("there is no environment to play in")
    if any(space is not None for space in own_spaces):
        raise NotPlayed("the policy is for the spaces that were passed, and the run has no environment with these")
    return episodes


def format_of(path: Path, format: str | None) -> str:
    """The format asked for, or that of the file's suffix."""
    by_suffix = {suffix: name for name, suffix in SUFFIXES.items()}
    if format is None:
        if path.suffix not in by_suffix:
            known = ", ".join(f"{suffix} ({name})" for name, suffix in SUFFIXES.items())
            raise ExportError(f"{path} says no format, expected a suffix of {known}; or give the format by name")
        return by_suffix[path.suffix]
    if format in AGENTS:
        raise ExportError(
            f"the format {format!r} is for language agents, and this policy is a network or a table; use "
            f"{_listed(list(SUFFIXES))}"
        )
    if format not in SUFFIXES:
        near = difflib.get_close_matches(format, [*SUFFIXES, *AGENTS], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {_listed([*SUFFIXES, *AGENTS])}"
        raise ExportError(f"there is no format {format!r}; {hint}")
    if by_suffix.get(path.suffix, format) != format:
        raise ExportError(
            f"{path.name} is a name for {by_suffix[path.suffix]}, and the format asked for is {format}; write "
            f"{path.with_suffix(SUFFIXES[format]).name}, or leave the format out"
        )
    return format


def _module(format: str) -> Any:
    for package, install in PACKAGES[format].items():
        try:
            importlib.import_module(package)
        except ImportError:
            raise ExportError(
                f"the format {format!r} needs {package}, which is not installed; {install}, or use the format 'numpy'"
            ) from None
    return importlib.import_module(f"fedrl.export.{format}_file")


def _demand(found: Agreement, format: str, where: str) -> None:
    if not found.holds:
        off = max(found.parameters, found.actions)
        raise ExportError(
            f"the {format} export differs from the policy on {where} (numbers by {off:.1e}, {found.allowed:.0e} is allowed; "
            f"{found.different - found.ties} whole-number actions), so no file was written; use another format, and please "
            "report it"
        )


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
