"""What `fedrl run` was asked for: which run it is, where its files go, and the command that continues it."""

import shlex
from pathlib import Path
from typing import NamedTuple

from fedrl.cli import engines
from fedrl.experiments import find, orders
from fedrl.experiments.ending import Ending
from fedrl.experiments.fault_options import FaultOptions
from fedrl.experiments.orders import Order
from fedrl.experiments.recipe import RecipeError
from fedrl.records import folder as folders
from fedrl.records import run_toml

RUNS = Path("runs")


class Request(NamedTuple):
    """What the command line asked for."""

    recipe: str | None  # a recipe: its name, its file or module:object; or a run.toml, or a folder with one
    settings: list[str]  # key=value
    seed: int | None
    seeds: int | None
    out: Path | None
    resume: bool
    paper: bool
    engine: engines.Choice = engines.Choice()
    faults: FaultOptions = FaultOptions()
    trust: bool = False  # code in the folder of a run of `fedrl.train`
    ending: Ending = Ending()


def decide(request: Request) -> Order:
    settings = dict(_pair(text) for text in request.settings)
    said_by = source(request)
    if said_by is None:
        return orders.order(
            request.recipe or "quickstart",
            paper=request.paper,
            overrides=settings,
            seed=request.seed or 0,
            seeds=request.seeds,
            ending=request.ending,
        )
    if request.paper:
        raise RecipeError(f"--paper needs a recipe's name, but {said_by} already fixes the size; drop one of the two")
    base = orders.from_toml(said_by)
    seed, seeds = request.seed, request.seeds
    return orders.order(
        base.recipe,
        overrides=base.plain()["config"] | settings,
        seed=base.seed if seed is None else seed,
        seeds=base.seeds if seeds is None else seeds,
        ending=base.ending.replaced_by(request.ending),
    )


def place(request: Request, order: Order) -> Path:
    if request.out is not None:
        return request.out
    if not request.resume:
        return folders.free_name(RUNS, order.name.replace("/", "-"))
    if request.recipe and (Path(request.recipe) / "run.toml").exists():
        return Path(request.recipe)
    resumable = folders.find_resumable(RUNS, order.plain())
    if resumable is None:
        raise run_toml.RunFolderError(
            f"no unfinished run of {order.name} with these settings under {RUNS}/; "
            "pass --out with its folder, or start one without --resume"
        )
    return resumable


def source(request: Request) -> Path | None:
    """The file that says what to run, unless it is a recipe's name."""
    there = request.out / "run.toml" if request.out and request.resume else None
    here = request.recipe is None or request.engine.name != "flower"  # Flower's files may be on another machine
    if there and here and not there.exists():
        start = shlex.join(["fedrl", "run", request.recipe or "quickstart", "--out", str(request.out)])
        raise run_toml.RunFolderError(
            f"{request.out} has no run.toml, so there is nothing to resume; pass the folder of a run, or start one: {start}"
        )
    if request.recipe is None:
        return there
    path = Path(request.recipe)
    if find.FILE.fullmatch(request.recipe):
        return None
    return path if path.suffix == ".toml" or path.is_file() or (path / "run.toml").exists() else None


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set expects key=value, got {text!r}; try --set rounds=100")
    return key.strip(), value.strip()


def resume_command(
    path: Path, engine: engines.Choice, order: Order | None = None, fault: FaultOptions = FaultOptions()
) -> str:
    """If the run's files are on another machine (Flower's), the command itself must say which run it is."""
    named = _spelled_out(order) if order and not (path / "run.toml").exists() else []
    return shlex.join(
        ["fedrl", "run", *named, "--resume", "--out", str(path), *engine.options(), *fault.command_line()]
    )


def _spelled_out(order: Order) -> list[str]:
    """The arguments that repeat this order."""
    defaults = order._replace(config=find.recipe(order.recipe).config()).plain()["config"]
    changed = {key: value for key, value in order.plain()["config"].items() if value != defaults[key]}
    texts = {key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in changed.items()}
    settings = [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]
    seeds = ["--seed", str(order.seed), "--seeds", str(order.seeds)]
    return [order.recipe, *settings, *seeds, *order.ending.command_line()]
