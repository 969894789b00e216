"""Commands and options. Nothing heavy is imported before a command needs it, so that --help is fast."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedrl.cli import errors

OVERVIEW = """Federated reinforcement learning: one policy across many clients whose environments differ.

Start with `fedrl run`: it trains the quickstart recipe and draws its learning curves.

Every run leaves a folder with everything needed to repeat, resume, check and plot it again."""

app = typer.Typer(help=OVERVIEW, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more folders of runs.")]
Figure = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The figure: a .png, .svg or .pdf.")]


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
def list_recipes(json: Json = False) -> None:
    """List the experiments that can be run by name."""
    from fedrl.cli.recipes import list_all

    list_all(json)


@app.command()
def run(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="[RECIPE|run.toml]", help="A name from `fedrl recipes`, or an earlier run.toml."),
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
    json: Json = False,
) -> int:
    """Train a recipe, decide its claims and draw its figures. Without a name: quickstart.

    Ctrl-C stops it safely and prints the command that continues.

    Examples:

    - fedrl run

    - fedrl run quickstart --set rounds=300 --seeds 4

    - fedrl run runs/quickstart/run.toml --out runs/again

    - fedrl run --resume --out runs/quickstart

    - fedrl run quickstart --engine processes --workers 4

    - fedrl run quickstart --engine processes --faults leave-out --quorum 0.5 --deadline 60
    """
    from fedrl.cli.engines import Choice
    from fedrl.cli.run import Request, carry_out
    from fedrl.experiments.fault_options import FaultOptions

    choice = Choice(engine, address, workers)
    rule = FaultOptions(faults, quorum, deadline)
    return carry_out(Request(recipe, settings or [], seed, seeds, out, resume, paper, choice, rule), as_json=json)


@app.command()
def verify(run: Run, json: Json = False) -> None:
    """Decide the recipe's claims again from a run's files, and write verdict.json.

    Each claim holds, does not hold, or is undecided at this budget.
    All three are findings: the exit code is 0 whichever they are.

    Example: fedrl verify runs/quickstart
    """
    from fedrl.cli.plot import verify as decide

    decide(run, as_json=json)


@app.command()
def plot(runs: Runs, out: Figure = None) -> None:
    """Draw the figures of a run again, or the curves of several runs in one figure.

    Only log files are read, so it also works while a run is in progress.

    Examples:

    - fedrl plot runs/quickstart

    - fedrl plot runs/quickstart runs/quickstart-2 --out both.svg
    """
    from fedrl.cli.plot import plot as draw

    draw(runs, out)


@app.command()
def compare(runs: Runs, out: Figure = None, json: Json = False) -> None:
    """Compare the final returns of every arm of every run: a table and a figure.

    Intervals are 95 % by Student's t over seeds.

    Example: fedrl compare runs/quickstart runs/quickstart-2
    """
    from fedrl.cli.compare import compare as side_by_side

    side_by_side(runs, out, as_json=json)


@app.command()
def evaluate(
    run: Run,
    episodes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Fresh episodes of each client (20), or of each held-out task (1)."),
    ] = None,
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="Only this arm. Default: all.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Other episodes. Default 0.")] = 0,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Always take the most likely action, instead of sampling as in training."),
    ] = False,
    json: Json = False,
) -> None:
    """Evaluate the learnt policies client by client, in fresh episodes: a table and a figure.

    Finite MDPs are solved exactly instead; language agents play their held-out tasks (success, score, success by type).
    Writes evaluation.json and, except for language agents, figures/evaluation.png into the run's folder.

    Example: fedrl evaluate runs/quickstart
    """
    from fedrl.cli.evaluate import evaluate as evaluate_run

    evaluate_run(run, episodes=episodes, arm=arm, seed=seed, deterministic=deterministic, as_json=json)


@app.command()
def play(
    run: Run,
    client: Annotated[
        int | None, typer.Option(metavar="I", help="Whose environment. Clients are numbered from 0. Default 0.")
    ] = None,
    task: Annotated[
        int | None,
        typer.Option(
            metavar="I",
            help="Language agents: which held-out task, by its place in the application's list, from 0.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The clip (.gif) or, with --task, the page (.html). Default: figures/client-I.gif or figures/task-I.html "
            "in the run's folder.",
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="Whose policy. Default: the first arm's.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Another episode. Default 0.")] = 0,
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after this many steps.")] = None,
) -> None:
    """Show one episode with the learnt policy (of the run's first seed): a client's as an animated GIF, or a task's as text.

    Cart-pole, mountain car, MuJoCo's bodies and traffic (Figure Eight, Merge) can be drawn. Language agents (fedagent/…)
    play a held-out task: the transcript is printed, and written as a page.

    Examples:

    - fedrl play runs/cart-pole --client 3 --out clip.gif

    - fedrl play runs/fedagent-quickstart --task 5
    """
    if task is None:
        from fedrl.cli.play import play as draw

        return draw(run, client or 0, out, arm=arm, seed=seed, steps=steps)
    if client is not None or steps is not None:
        other = "--client" if client is not None else "--steps"
        raise typer.BadParameter(f"{other} is for episodes drawn as a clip, --task for transcripts; drop one")
    from fedrl.cli.transcript import play as tell

    return tell(run, task, out, arm=arm, seed=seed)


agents = typer.Typer(rich_markup_mode="markdown")
app.add_typer(agents, name="agents")


@agents.callback(invoke_without_command=True)
def language_agents(context: typer.Context) -> None:
    """Language agents: more commands for runs of fedagent/… (needs the extra: pip install 'fedrl[llm]')."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@agents.command()
def label(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, finished or not.")],
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="Whose model. Default: the first arm's.")] = None,
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Episodes of each task.")] = 1,
    before: Annotated[bool, typer.Option("--before", help="Use the model from before training.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Default: labels.json, or labels-before.json, in the run's folder."),
    ] = None,
) -> int:
    """Play every task that clients may get, and record which are solved: labels for HardnessPartition (Algorithm 4).

    The model is that of the newest checkpoint of the run's first seed. After Ctrl-C, the same command continues.

    Example: fedrl agents label runs/fedagent-quickstart --out labels.json
    """
    from fedrl.cli.agents import label as play_all

    return play_all(run, arm=arm, episodes=episodes, before=before, out=out)


def main() -> None:
    sys.exit(errors.guard(lambda: app(prog_name="fedrl", standalone_mode=False)))
