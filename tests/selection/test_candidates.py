"""What all selections among candidates share."""

from fedrl.records.rows import MOST_CLIENTS
from fedrl.selection.candidates import MOST_LISTED


def test_a_selection_lists_clients_as_long_as_the_log_does():
    assert MOST_LISTED == MOST_CLIENTS
