"""`--faults`, `--quorum` and `--deadline` of `fedrl run`."""

from pathlib import Path

import pytest

from fedrl.cli import faults
from fedrl.cli.engines import Choice
from fedrl.cli.faults import FaultChoice
from fedrl.cli.run import Request, carry_out, resume_command
from fedrl.faults import STOP, leave_out, stop


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (FaultChoice(), STOP),
        (FaultChoice("stop", None, 60.0), stop(deadline=60.0)),
        (FaultChoice("leave-out"), leave_out()),
        (FaultChoice("leave-out", "0.5", 60.0), leave_out(quorum=0.5, deadline=60.0)),
        (FaultChoice("leave-out", "3"), leave_out(quorum=3)),
    ],
)
def test_what_is_asked_for(choice, wanted):
    assert faults.rule(choice) == wanted
    assert faults.rule(faults.of_config(choice.plain())) == wanted


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (FaultChoice("leave_out"), "--faults wants stop or leave-out, got 'leave_out'; did you mean leave-out?"),
        (FaultChoice(None, "2"), "--quorum 2 is for --faults leave-out; add that or drop it"),
        (FaultChoice("leave-out", "half"), "--quorum wants a number of clients"),
        (FaultChoice("leave-out", "0"), "quorum must be a whole number of clients"),
    ],
)
def test_what_cannot_be(choice, message):
    with pytest.raises(ValueError, match=message.replace("?", "\\?")):
        faults.rule(choice)


def test_a_deadline_that_the_engine_cannot_keep(tmp_path):
    """It is refused before there is a folder."""
    request = Request(
        "quickstart", [], None, None, tmp_path / "run", False, False, Choice(), FaultChoice(None, None, 5.0)
    )
    with pytest.raises(ValueError, match="cannot keep a deadline of 5 s"):
        carry_out(request, as_json=False)
    assert not (tmp_path / "run").exists()


def test_the_command_that_goes_on():
    command = resume_command(Path("runs/a"), Choice("processes"), fault=FaultChoice("leave-out", "0.5", 60.0))
    assert command.endswith("--engine processes --faults leave-out --quorum 0.5 --deadline 60.0")
