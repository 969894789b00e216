"""Commands for runs that exist: decide, draw, compare, cite, evaluate, play, export, personalise."""

from pathlib import Path
from typing import Annotated

import typer

from fedrl.cli.options import Best, Figure, Json, Run, Runs, Trust

commands = typer.Typer(rich_markup_mode="markdown")


@commands.command()
def verify(run: Run, json: Json = False) -> None:
    """Decide the recipe's claims again from a run's files, and write verdict.json.

    Each claim holds, does not hold, or is undecided at this budget.
    All three are findings: the exit code is 0 whichever they are.
    A run of fedrl.train makes no claims; its folder is checked to be whole.

    Example: fedrl verify runs/quickstart
    """
    from fedrl.cli.plot import verify as decide

    decide(run, as_json=json)


@commands.command()
def plot(
    runs: Runs,
    out: Figure = None,
    x: Annotated[str, typer.Option(metavar="AXIS", help="Curves by rounds, steps, bytes or seconds.")] = "rounds",
    dark: Annotated[bool, typer.Option("--dark", help="On a dark background; -dark is added to the name.")] = False,
) -> None:
    """Draw the figures of a run again, or the curves of several runs in one figure.

    Only log files are read, so it also works while a run is in progress.

    Examples:

    - fedrl plot runs/quickstart

    - fedrl plot runs/quickstart runs/quickstart-2 --out both.svg

    - fedrl plot runs/quickstart --x bytes
    """
    from fedrl.cli.plot import plot as draw

    draw(runs, out, x=x, dark=dark)


@commands.command()
def compare(runs: Runs, out: Figure = None, json: Json = False) -> None:
    """Compare the final returns of every arm of every run: a table and a figure, with a panel for each environment.

    Intervals are 95 % by Student's t over seeds.

    Example: fedrl compare runs/quickstart runs/quickstart-2
    """
    from fedrl.cli.compare import compare as side_by_side

    side_by_side(runs, out, as_json=json)


@commands.command()
def cite(run: Run) -> None:
    """Print the BibTeX of everything a run used: the papers of its recipe and methods, and fedrl.

    Example: fedrl cite runs/quickstart > references.bib
    """
    from fedrl.cli.cite import cite as print_entries

    print_entries(run)


@commands.command()
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
    best: Best = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Evaluate the learnt policies client by client, in fresh episodes: a table and a figure.

    Finite MDPs are solved exactly instead; language agents play their held-out tasks (success, score, success by type).
    Writes evaluation.json and, except for language agents, figures/evaluation.png into the run's folder;
    with --best, evaluation-best.json and figures/evaluation-best.png; of one arm, with its name at the end.

    Example: fedrl evaluate runs/quickstart
    """
    from fedrl.cli.evaluate import evaluate as evaluate_run

    evaluate_run(
        run, episodes=episodes, arm=arm, seed=seed, deterministic=deterministic, best=best, as_json=json, trust=trust
    )


@commands.command()
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
            help="The clip (.gif or .mp4) or, with --task, the page (.html). Default: figures/client-I.gif or "
            "figures/task-I.html in the run's folder.",
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="Whose policy. Default: the first arm's.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Another episode. Default 0.")] = 0,
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after this many steps.")] = None,
    best: Best = False,
    trust: Trust = False,
) -> None:
    """Show one episode with the learnt policy (of the run's first seed): a client's as a GIF or MP4, or a task's as text.

    Cart-pole, mountain car, MuJoCo's bodies, traffic (Figure Eight, Merge) and every environment of Gymnasium or
    PettingZoo with render_mode="rgb_array" can be drawn. Language agents (fedagent/…)
    play a held-out task: the transcript is printed, and written as a page.

    Examples:

    - fedrl play runs/cart-pole --client 3 --out clip.gif

    - fedrl play runs/fedagent-quickstart --task 5
    """
    if task is None:
        from fedrl.cli.play import play as draw

        return draw(run, client or 0, out, arm=arm, seed=seed, steps=steps, best=best, trust=trust)
    if client is not None or steps is not None:
        other = "--client" if client is not None else "--steps"
        raise typer.BadParameter(f"{other} is for episodes drawn as a clip, --task for transcripts; drop one")
    from fedrl.cli.transcript import play as tell

    return tell(run, task, out, arm=arm, seed=seed, best=best)


@commands.command()
def export(
    run: Run,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="numpy, onnx or torch; of language agents peft or merged. Default: as FILE ends."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file, or the folder of a language agent. Default: beside the policy."),
    ] = None,
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="Whose policy. Default: the first arm's.")] = None,
    policy_seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of which of the run's seeds, counted from 0.")
    ] = 0,
    client: Annotated[
        int | None,
        typer.Option(metavar="I", help="The policy as this client acts with it. Default: as a new client does."),
    ] = None,
    best: Best = False,
    play: Annotated[
        bool, typer.Option("--play/--no-play", help="Also check it in ten episodes of the client's environment.")
    ] = True,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Write the learnt policy as a file or folder that needs no fedrl, and check that it acts the same.

    - numpy: one Python file that imports only NumPy; onnx: a graph for any ONNX runtime; torch: a torch.export program.

    - peft: an adapter that peft and vLLM load; merged: a whole Hugging Face model.

    The file is compared with the policy on 10,000 observations and in ten episodes, which it plays in the client's
    environment (client 0's for a new client); where they differ nothing is written.

    Example: fedrl export runs/control-cart-pole --out pole.onnx
    """
    from fedrl.cli.export import export as write_out

    write_out(
        run, format, out, arm=arm, seed=policy_seed, client=client, best=best, play=play, as_json=json, trust=trust
    )


@commands.command()
def personalise(
    run: Run,
    rounds: Annotated[int, typer.Option(metavar="K", min=1, help="How many rounds each client trains on alone.")],
    client: Annotated[int | None, typer.Option(metavar="I", help="Which client, numbered from 0.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every client, each apart from the others.")] = False,
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="Whose policy. Default: the first arm's.")] = None,
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Fresh episodes to measure by.")] = 20,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Train the common policy on, on one client alone: its return beside the common policy's and going it alone.

    Going it alone starts from scratch and takes as many rounds. Writes below personal/ in the run's folder, one policy per
    client; the same command continues after an interruption.

    Examples:

    - fedrl personalise runs/control-cart-pole --client 3 --rounds 10

    - fedrl personalise runs/control-cart-pole --all --rounds 10
    """
    from fedrl.cli.personalise import carry_out

    carry_out(run, client, everyone=everyone, rounds=rounds, arm=arm, episodes=episodes, trust=trust, as_json=json)
