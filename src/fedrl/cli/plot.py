"""`fedrl verify` and `fedrl plot`: read a run's files again; nothing is trained."""

from contextlib import nullcontext
from pathlib import Path

from fedrl.cli import output, run_files, verify_train
from fedrl.experiments import experiment, find, orders, restore
from fedrl.plots import curves, files, style
from fedrl.records.folder import RunFolder
from fedrl.records.log import Row


def verify(path: Path, *, as_json: bool) -> None:
    if restore.is_of_train(path):
        verify_train.verify(path.parent if path.is_file() else path, as_json=as_json)
        return
    order = orders.from_toml(path)
    path = path.parent if path.is_file() else path
    claims = experiment.verify(order, path)
    notes = [note for note in (orders.code_note(path, order), experiment.early(order, path)) if note]
    if as_json:
        rows = [claim._asdict() for claim in claims]
        output.emit(
            {"run": path, "recipe": order.recipe, "claims": rows, "notes": notes, "verdict": path / "verdict.json"}
        )
        return
    console = output.screen()
    for note in notes:
        output.say(console, f"note: {note}", "yellow")
    output.say(console, f"{order.name} ({find.recipe(order.recipe).paper}), from {path}\n", "bold")
    output.claims(console, claims, numbers=True)
    output.say(console, f"\nwritten  {path / 'verdict.json'}")


def plot(paths: list[Path], out: Path | None, *, x: str, dark: bool) -> None:
    if x not in curves.X_AXES:
        raise ValueError(f"--x expects one of {', '.join(curves.X_AXES)}, got {x!r}; leave it out for rounds")
    console = output.screen()
    own = len(paths) == 1 and out is None and x == "rounds"
    with style.dark() if dark else nullcontext():
        for figure in _own_figures(paths[0]) if own else [_combined(paths, out, x)]:
            output.say(console, f"figure   {figure}")


def _own_figures(path: Path) -> list[Path]:
    """The recipe's own figures once the run is finished; before that, and for other folders, the curves so far."""
    if RunFolder(path).finished:
        return experiment.draw(orders.from_toml(path), path)
    return [curves.draw(run_files.logs(path), path / "figures" / "return.png", title=path.resolve().name)]


def _combined(paths: list[Path], out: Path | None, x: str) -> Path:
    names = run_files.names(paths)
    target = files.target(out, paths, "curves" if x == "rounds" else f"curves-by-{x}")
    rows: dict[str, list[Row]] = {}
    for path, name in zip(paths, names, strict=True):
        logs = run_files.logs(path)
        rows |= {label if len(paths) > 1 else arm: logs[arm] for arm, label in run_files.labels(name, logs).items()}
    return curves.draw(rows, target, title=" and ".join(names) if len(names) < 4 else f"{len(names)} runs", x=x)
