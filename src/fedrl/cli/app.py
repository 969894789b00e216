"""Commands and options. Nothing heavy is imported before a command needs it, so that --help is fast."""

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedrl.cli import errors
from fedrl.cli.agents_commands import agents
from fedrl.cli.federation_commands import federation
from fedrl.cli.options import Json, Trust
from fedrl.cli.run_commands import commands

OVERVIEW = """Federated reinforcement learning: one policy across many clients whose environments differ.

Start with `fedrl run`: it trains the quickstart recipe and draws its learning curves.

Every run leaves a folder with everything needed to repeat, resume, check and plot it again."""

app = typer.Typer(help=OVERVIEW, pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def fedrl(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(version_of("fedrl"))
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("recipes")
def list_recipes(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="[RECIPE]", help="Show this one: a name, a file, or module:object."),
    ] = None,
    json: Json = False,
) -> None:
    """List the experiments that can be run by name, or show one: its paper, its settings, what it claims.

    Examples:

    - fedrl recipes

    - fedrl recipes wang2024/table2

    - fedrl recipes ./tank.py
    """
    if recipe is None:
        from fedrl.cli.recipes import list_all

        return list_all(json)
    from fedrl.cli.show_recipe import show

    return show(recipe, json)


@app.command()
def new(
    folder: Annotated[
        Path, typer.Argument(metavar="NAME", help="The folder to write; its last part names the project.")
    ],
) -> None:
    """Write a project of your own that runs at once: environments that differ, a recipe, a test.

    Example: fedrl new water-tank
    """
    from fedrl.cli.new import create

    create(folder)


@app.command()
def run(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|run.toml]",
            help="A name from `fedrl recipes`, a recipe of your own (./tank.py, or module:object), or an earlier run.toml.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe. May be given several times."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="The first seed. Default 0.")] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many seeds to train.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the files go. Default: a new folder under runs/."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped or killed.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's own size instead of the quick one.")] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What runs the rounds, instead of the recipe's own choice: fused, one_at_a_time, processes, ray and "
            "flower give the same bytes; vmap is the fast one, compared by tolerance.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="With --engine ray: the cluster, `auto` for this machine's. With flower: the SuperLink.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --engine processes or ray: how many. Default: one per core."),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="When a client fails (an error, numbers that are not finite, no answer): `stop` the run, the default, or "
            "`leave-out` the client and continue with the others.",
        ),
    ] = None,
    quorum: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="With --faults leave-out: stop if fewer clients are left in an exchange; 3 clients, or 0.5 of those asked.",
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long one client's work may take. With --engine processes, ray or flower. Default: no limit.",
        ),
    ] = None,
    stop_at: Annotated[
        float | None,
        typer.Option(metavar="R", help="End an arm once its mean return over seeds and clients reaches this."),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="End an arm after this many evaluations without a better one."),
    ] = None,
    keep_best: Annotated[
        bool,
        typer.Option("--keep-best", help="Also keep the best policy measured; arms that may end early always do."),
    ] = False,
    trust: Trust = False,
    json: Json = False,
) -> int:
    """Train a recipe, decide its claims and draw its figures. Without a name: quickstart.

    Ctrl-C stops it safely and prints the command that continues.

    Examples:

    - fedrl run

    - fedrl run quickstart --set rounds=300 --seeds 4

    - fedrl run ./tank.py --set clients=4

    - fedrl run runs/quickstart/run.toml --out runs/again

    - fedrl run --resume --out runs/quickstart    (also a run that fedrl.train began)

    - fedrl run control/cart-pole --stop-at 475 --patience 5

    - fedrl run quickstart --engine processes --workers 4

    - fedrl run quickstart --engine processes --faults leave-out --quorum 0.5 --deadline 60
    """
    from fedrl.cli.engines import Choice
    from fedrl.cli.request import Request
    from fedrl.cli.run import carry_out
    from fedrl.experiments.ending import Ending
    from fedrl.experiments.fault_options import FaultOptions

    choice = Choice(engine, address, workers)
    rule = FaultOptions(faults, quorum, deadline)
    ending = Ending(stop_at, patience, keep_best)
    return carry_out(
        Request(recipe, settings or [], seed, seeds, out, resume, paper, choice, rule, trust, ending), as_json=json
    )


app.add_typer(commands)
app.add_typer(agents, name="agents")
app.add_typer(federation, name="federation")


def main() -> None:
    if sys.stdout is None:  # closed, as by `fedrl recipes >&-`
        sys.stdout = io.StringIO()
    sys.exit(errors.guard(lambda: app(prog_name="fedrl", standalone_mode=False)))
