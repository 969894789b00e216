"""`--faults`, `--quorum` and `--deadline` of `fedrl run`."""

from pathlib import Path

import pytest

from fedrl.cli.engines import Choice
from fedrl.cli.request import Request, resume_command
from fedrl.cli.run import carry_out
from fedrl.experiments.fault_options import FaultOptions


def test_a_deadline_that_the_engine_cannot_keep(tmp_path):
    """It is refused before there is a folder."""
    request = Request(
        "quickstart", [], None, None, tmp_path / "run", False, False, Choice(), FaultOptions(None, None, 5.0)
    )
    with pytest.raises(ValueError, match="cannot keep a deadline of 5 s"):
        carry_out(request, as_json=False)
    assert not (tmp_path / "run").exists()


def test_the_command_that_goes_on():
    command = resume_command(Path("runs/a"), Choice("processes"), fault=FaultOptions("leave-out", "0.5", 60.0))
    assert command.endswith("--engine processes --faults leave-out --quorum 0.5 --deadline 60.0")
