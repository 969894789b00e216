"""`fedrl run --resume` of a run that `fedrl.train` began: to the rounds it was asked for."""

from functools import partial
from pathlib import Path

from rich.console import Console

from fedrl import training
from fedrl.cli import output
from fedrl.cli.errors import STOPPED
from fedrl.engines.engine import Engine
from fedrl.faults import Faults
from fedrl.finished_run import Run
from fedrl.records import experiment_file, progress, run_toml


def carry_out(
    path: Path, *, engine: Engine | None, faults: Faults | None, trust: bool, command: str, as_json: bool
) -> int:
    """`command` is the one that continues if this is interrupted, too."""
    console = output.screen(stderr=as_json)
    seeds = run_toml.read_config(path)["seeds"]
    rounds = experiment_file.parts_of(path).about["rounds"]
    output.say(console, f"{path}: a run of fedrl.train, to round {rounds}\n", "bold")

    def warn(text: str) -> None:
        output.say(console, f"note: {text}", "yellow")

    try:
        with progress.shown(console, [path.resolve().name], seeds) as callback:
            run = training.resume(
                path,
                trust=trust,
                engine=engine,
                faults=faults,
                warn=warn,
                callback=partial(callback, path.resolve().name),
            )
    except KeyboardInterrupt:
        output.say(output.screen(stderr=True), f"Stopped; nothing is lost. Continue with: {command}")
        return STOPPED
    last = run.rows[-1]
    if as_json:
        facts = {name: last.get(name) for name in ("round", "return", "return_se", "worst", "env_steps", "seconds")}
        output.emit({"run": path, **facts})
    else:
        _summarise(console, run, path)
    return 0


def _summarise(console: Console, run: Run, path: Path) -> None:
    last = run.rows[-1]
    row = (last["round"], last.get("return"), last.get("return_se"), last.get("worst"))
    console.print(output.table(("rounds", "final return", "± s.e.", "worst client"), [row], left=0))
    output.say(console, f"\nfiles    {path}")
