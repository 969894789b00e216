"""`fedrl run`: decide what to run and where, run it, and report the results."""

from pathlib import Path

from fedrl.cli import engines, flower, output, resume_train, summary
from fedrl.cli.errors import STOPPED
from fedrl.cli.request import Request, decide, place, resume_command, source
from fedrl.experiments import experiment, orders, restore
from fedrl.experiments.fault_options import FaultOptions
from fedrl.experiments.outcomes import of_run
from fedrl.experiments.recipe import RecipeError
from fedrl.records import folder as folders
from fedrl.records import progress, run_toml


def carry_out(request: Request, *, as_json: bool) -> int:
    if (trained_in := _folder_of_train(request)) is not None:
        return _resume_train(trained_in, request, as_json)
    order, engine, rule = decide(request), engines.engine(request.engine), request.faults.faults()
    arms = experiment.check(order, engine, rule)  # before there is a folder, so a bad setting leaves nothing behind
    path = place(request, order)
    console = output.screen(stderr=as_json)

    def warn(text: str) -> None:
        output.say(console, f"note: {text}", "yellow")

    said_by = source(request) or path / "run.toml"
    if said_by.exists():
        changed = None if request.resume else orders.code_note(said_by, order)  # `claim` compares what is resumed
        for note in filter(None, (run_toml.version_note(said_by), changed)):
            warn(note)
    try:
        if request.engine.name == "flower":
            flower.refuse_own(order)
            summary.announce(console, order, path)
            if not flower.play(
                order, path.absolute(), request.engine.address, resume=request.resume, faults=request.faults
            ):
                output.say(console, f"Finished; its files are on the SuperLink's machine, in {path.absolute()}")
                return 0
        else:
            with folders.claim(path, order.plain(), request.resume) as folder:
                summary.announce(console, order, path)
                with progress.shown(console, arms, order.seeds) as callback:
                    experiment.run(order, folder, engine=engine, callback=callback, warn=warn, faults=rule)
    except KeyboardInterrupt:
        command = resume_command(path, request.engine, order, request.faults)
        output.say(output.screen(stderr=True), f"Stopped; nothing is lost. Continue with: {command}")
        return STOPPED
    outcomes, claims = of_run(order, path), experiment.claims(order, path)
    if early := experiment.early(order, path):
        warn(early)
    if as_json:
        output.emit(summary.as_object(order, path, outcomes, claims))
    else:
        summary.summarise(console, order, path, outcomes, claims)
    return 0


def _folder_of_train(request: Request) -> Path | None:
    """The folder to resume, if `fedrl.train` wrote it."""
    folder = request.out or Path(request.recipe or "") if request.resume else None
    if folder is None or not any((folder / name).exists() for name in ("run.toml", "seeds.json")):
        return None
    return folder if restore.is_of_train(folder) else None


def _resume_train(folder: Path, request: Request, as_json: bool) -> int:
    fixed = {"--set": request.settings, "--paper": request.paper}
    fixed |= {"--seed": request.seed is not None, "--seeds": request.seeds is not None}
    if given := [*(option for option, it in fixed.items() if it), *request.ending.command_line()]:
        raise RecipeError(f"{folder} is a run of fedrl.train, and its script decides its settings; drop {given[0]}")
    if request.engine.name == "flower":
        raise RecipeError(f"{folder} is a run of fedrl.train, which Flower does not play; choose another --engine")
    return resume_train.carry_out(
        folder,
        engine=engines.engine(request.engine),
        faults=request.faults.faults() if request.faults != FaultOptions() else None,
        trust=request.trust,
        command=resume_command(folder, request.engine, fault=request.faults) + (" --trust" if request.trust else ""),
        as_json=as_json,
    )
