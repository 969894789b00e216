"""`--faults`, `--quorum` and `--deadline`, as a rule for failing clients."""

import pytest

from fedrl.experiments.fault_options import FaultOptions, from_config
from fedrl.faults import STOP, leave_out, stop


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (FaultOptions(), STOP),
        (FaultOptions("stop", None, 60.0), stop(deadline=60.0)),
        (FaultOptions("leave-out"), leave_out()),
        (FaultOptions("leave-out", "0.5", 60.0), leave_out(quorum=0.5, deadline=60.0)),
        (FaultOptions("leave-out", "3"), leave_out(quorum=3)),
    ],
)
def test_options_become_a_rule(options, expected):
    assert options.faults() == expected
    assert from_config(options.config()).faults() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (FaultOptions("leave_out"), "--faults must be stop or leave-out, got 'leave_out'; did you mean leave-out?"),
        (FaultOptions(None, "2"), "--quorum 2 is for --faults leave-out; add that or drop it"),
        (FaultOptions("leave-out", "half"), "--quorum must be a number of clients"),
        (FaultOptions("leave-out", "0"), "quorum must be a whole number of clients"),
    ],
)
def test_options_that_make_no_rule(options, message):
    with pytest.raises(ValueError, match=message.replace("?", "\\?")):
        options.faults()
