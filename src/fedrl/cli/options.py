"""Options and arguments that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more folders of runs.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Run the code in a folder of fedrl.train that somebody else wrote. Default: your own."
    ),
]
Best = Annotated[
    bool, typer.Option("--best", help="The policy of the best evaluation, if the run kept it. Default: the last one.")
]
Figure = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The figure: a .png, .svg or .pdf.")]
