"""`fedrl run`: decide what to run and where, run it, and report the results."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from fedrl.cli import engines, flower, output
from fedrl.cli.errors import STOPPED
from fedrl.cli.recipes import duration
from fedrl.experiments import experiment, find, orders
from fedrl.experiments.fault_options import FaultOptions
from fedrl.experiments.orders import Order
from fedrl.experiments.outcomes import of_run
from fedrl.experiments.recipe import Claim, Outcome, RecipeError
from fedrl.records import folder as folders
from fedrl.records import progress, run_toml
from fedrl.records.rows import worst

RUNS = Path("runs")


class Request(NamedTuple):
    """What the command line asked for."""

    recipe: str | None  # a recipe's name, or a run.toml, or a folder with one
    settings: list[str]  # key=value
    seed: int | None
    seeds: int | None
    out: Path | None
    resume: bool
    paper: bool
    engine: engines.Choice = engines.Choice()
    faults: FaultOptions = FaultOptions()


def carry_out(request: Request, *, as_json: bool) -> int:
    order, engine, rule = decide(request), engines.engine(request.engine), request.faults.faults()
    arms = experiment.check(order, engine, rule)  # before there is a folder, so a bad setting leaves nothing behind
    path = place(request, order)
    console = output.screen(stderr=as_json)

    def warn(text: str) -> None:
        output.say(console, f"note: {text}", "yellow")

    said_by = _source(request) or path / "run.toml"
    if said_by.exists() and (note := run_toml.version_note(said_by)):
        warn(note)
    try:
        if request.engine.name == "flower":
            announce(console, order, path)
            if not flower.play(
                order, path.absolute(), request.engine.address, resume=request.resume, faults=request.faults
            ):
                output.say(console, f"Finished; its files are on the SuperLink's machine, in {path.absolute()}")
                return 0
        else:
            with folders.claim(path, order.plain(), request.resume) as folder:
                announce(console, order, path)
                with progress.shown(console, arms, order.seeds) as callback:
                    experiment.run(order, folder, engine=engine, callback=callback, warn=warn, faults=rule)
    except KeyboardInterrupt:
        command = resume_command(path, request.engine, order, request.faults)
        output.say(output.screen(stderr=True), f"Stopped; nothing is lost. Continue with: {command}")
        return STOPPED
    outcomes, claims = of_run(order, path), experiment.claims(order, path)
    if as_json:
        output.emit(as_object(order, path, outcomes, claims))
    else:
        summarise(console, path, outcomes, claims)
    return 0


def decide(request: Request) -> Order:
    settings = dict(_pair(text) for text in request.settings)
    source = _source(request)
    if source is None:
        return orders.order(
            request.recipe or "quickstart",
            paper=request.paper,
            overrides=settings,
            seed=request.seed or 0,
            seeds=request.seeds,
        )
    if request.paper:
        raise RecipeError(f"--paper needs a recipe's name, but {source} already fixes the size; drop one of the two")
    base = orders.from_toml(source)
    seed, seeds = request.seed, request.seeds
    return orders.order(
        base.recipe,
        overrides=base.plain()["config"] | settings,
        seed=base.seed if seed is None else seed,
        seeds=base.seeds if seeds is None else seeds,
    )


def place(request: Request, order: Order) -> Path:
    if request.out is not None:
        return request.out
    if not request.resume:
        return folders.free_name(RUNS, order.recipe.replace("/", "-"))
    if request.recipe and (Path(request.recipe) / "run.toml").exists():
        return Path(request.recipe)
    resumable = folders.find_resumable(RUNS, order.plain())
    if resumable is None:
        raise run_toml.RunFolderError(
            f"no unfinished run of {order.recipe} with these settings under {RUNS}/; "
            "pass --out with its folder, or start one without --resume"
        )
    return resumable


def _source(request: Request) -> Path | None:
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
    return [order.recipe, *settings, "--seed", str(order.seed), "--seeds", str(order.seeds)]


def announce(console: Console, order: Order, path: Path) -> None:
    recipe = find.recipe(order.recipe)
    output.say(console, f"{order.recipe}: {recipe.shows}", "bold")
    at_default_size = order.config == recipe.config() and order.seeds == recipe.seeds
    time = f", about {duration(recipe.minutes)}" if at_default_size else ""
    output.say(console, f"{order.seeds} seeds from {order.seed} on{time}; files go to {path}\n", "dim")


def summarise(console: Console, path: Path, outcomes: dict[str, Outcome], claims: list[Claim]) -> None:
    rows = [(arm, it["return"], it["se"], it["worst"]) for arm, it in finals(outcomes).items()]
    console.print()
    console.print(output.table(("arm", "final return", "± s.e.", "worst client"), rows))
    console.print()
    output.claims(console, claims, numbers=False)
    quoted = shlex.quote(str(path))
    output.say(console, f"\nfiles    {path}")
    for figure in figures(path):
        output.say(console, f"figure   {figure}")
    output.say(console, f"\nNext:  fedrl verify {quoted}    the numbers behind each claim", "dim")
    output.say(console, f"       fedrl run {quoted} --seed 100    the same with other seeds", "dim")
    output.say(console, f"       fedrl compare {quoted} …    beside other runs", "dim")
    output.say(console, "       fedrl recipes    what else there is", "dim")


def finals(outcomes: dict[str, Outcome]) -> dict[str, dict[str, Any]]:
    """The end of every arm: mean over seeds and clients, standard error over seeds, and the worst client's return."""
    return {
        arm: {
            "return": float(it.final().mean()),
            "se": float(it.final().std(ddof=1) / len(it.final()) ** 0.5) if len(it.final()) > 1 else None,
            "worst": float(worst(it.returns)),
            "rounds": it.rows[-1]["round"],
            "env_steps": it.rows[-1]["env_steps"],
            "seconds": it.rows[-1]["seconds"],
        }
        for arm, it in outcomes.items()
    }


def figures(path: Path) -> list[Path]:
    return sorted(file for file in (path / "figures").glob("*") if file.suffix in (".png", ".svg", ".pdf"))


def as_object(order: Order, path: Path, outcomes: dict[str, Outcome], claims: list[Claim]) -> dict[str, Any]:
    rows = [claim._asdict() for claim in claims]
    return {"run": path, **order.plain(), "arms": finals(outcomes), "claims": rows, "figures": figures(path)}
