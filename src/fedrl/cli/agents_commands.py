"""`fedrl agents …`: commands for language agents."""

from pathlib import Path
from typing import Annotated

import typer

agents = typer.Typer(rich_markup_mode="markdown")


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
