"""`fedrl verify` and `fedrl plot`: read a run's files again; nothing is trained."""

from pathlib import Path

from fedrl.cli import output, run_files
from fedrl.experiments import experiment, find, orders
from fedrl.plots import curves, files
from fedrl.records.folder import RunFolder
from fedrl.records.log import Row


def verify(path: Path, *, as_json: bool) -> None:
    order = orders.from_toml(path)
    path = path.parent if path.is_file() else path
    claims = experiment.verify(order, path)
    if as_json:
        rows = [claim._asdict() for claim in claims]
        output.emit({"run": path, "recipe": order.recipe, "claims": rows, "verdict": path / "verdict.json"})
        return
    console = output.screen()
    output.say(console, f"{order.recipe} ({find.recipe(order.recipe).paper}), from {path}\n", "bold")
    output.claims(console, claims, numbers=True)
    output.say(console, f"\nwritten  {path / 'verdict.json'}")


def plot(paths: list[Path], out: Path | None) -> None:
    console = output.screen()
    for figure in _own_figures(paths[0]) if len(paths) == 1 and out is None else [_combined(paths, out)]:
        output.say(console, f"figure   {figure}")


def _own_figures(path: Path) -> list[Path]:
    """The recipe's own figures once the run is finished; before that, and for other folders, the curves so far."""
    if RunFolder(path).finished:
        return experiment.draw(orders.from_toml(path), path)
    return [curves.draw(run_files.logs(path), path / "figures" / "return.png", title=path.resolve().name)]


def _combined(paths: list[Path], out: Path | None) -> Path:
    names = run_files.names(paths)
    target = files.target(out, paths, "curves")
    rows: dict[str, list[Row]] = {}
    for path, name in zip(paths, names, strict=True):
        logs = run_files.logs(path)
        rows |= {label if len(paths) > 1 else arm: logs[arm] for arm, label in run_files.labels(name, logs).items()}
    return curves.draw(rows, target, title=" and ".join(names) if len(names) < 4 else f"{len(names)} runs")
