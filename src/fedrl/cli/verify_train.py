"""`fedrl verify` of a run of `fedrl.train`: there are no claims to decide, but its folder must be whole."""

import warnings
from pathlib import Path
from typing import Any

from fedrl import loading
from fedrl.cli import output
from fedrl.records import checkpoint, experiment_file, run_toml, signing
from fedrl.records.journal import BEST
from fedrl.records.run_toml import RunFolderError


def verify(path: Path, *, as_json: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = loading.load(path)  # reads policy, returns and log, or says what is wrong with them
    rounds = run.rows[-1]["round"]
    newest, damaged = checkpoint.check(path / "checkpoint")
    if newest is None or newest < rounds:
        reason = f" ({damaged[0]})" if damaged else ""
        there = "no whole checkpoint" if newest is None else f"only a whole checkpoint of round {newest}"
        raise RunFolderError(
            f"{path} has {there}{reason}, expected one of round {rounds}; its policy can be used, but to continue or "
            "evaluate it use another copy"
        )
    notes = [str(it.message) for it in caught]
    notes += [f"checkpoint skipped: {reason}" for reason in damaged]
    notes += [note for note in [_version_note(path)] if note]
    facts = {
        "policy": f"whole, of round {rounds}",
        "best policy": f"whole, of round {run.best.header['rounds']}" if run.best else f"no {BEST}",
        "log": f"whole, {len(run.rows)} rows",
        "checkpoint": f"whole, of round {newest}",
        "experiment": _experiment(path),
    }
    content: dict[str, Any] = {"run": path, "claims": [], "files": facts, "notes": notes}
    if as_json:
        output.emit(content)
        return
    console = output.screen()
    output.say(console, f"{path} is {_kind(path)}, which makes no claims to decide; its folder is whole.", "bold")
    console.print(output.table(("file", "state"), facts.items(), left=2))
    for note in notes:
        output.say(console, f"note: {note}", "yellow")


def _kind(path: Path) -> str:
    home = run_toml.run_of_arm(path)
    return f"one arm of {home}" if home else "a run of fedrl.train"


def _version_note(path: Path) -> str | None:
    return None if run_toml.is_of_first_versions(path) else run_toml.version_note(path)


def _experiment(path: Path) -> str:
    """The state of `experiment.pkl`, which is not opened."""
    if not (path / experiment_file.NAME).exists() and run_toml.run_of_arm(path):
        return f"no {experiment_file.NAME}: the recipe that run.toml names builds it"
    if not (path / experiment_file.NAME).exists():
        return f"no {experiment_file.NAME}: it can be loaded, not evaluated or played"
    parts = experiment_file.parts_of(path)
    if signing.is_own(parts.signed, parts.signature):
        return f"whole, written by you on this machine, to round {parts.about['rounds']}"
    return "not written by you on this machine: evaluate, play and run --resume ask for --trust"
