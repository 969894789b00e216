"""The summary of returns by hand, and how it looks. What is measured is tested in tests/cli/test_evaluate.py."""

import numpy as np
import pytest

from fedrl import client_returns
from fedrl.client_returns import MOST_ROWS, ClientReturns
from fedrl.trained import Trained

FOUND = ClientReturns(np.array([[0.0, 1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0, 8.0]]), "by hand <here>")


def test_the_summary_by_hand():
    said = FOUND.summary()
    assert (said["mean"], said["se"], said["worst"]) == (4.0, 2.0, 2.0)
    assert said["quantiles"] == pytest.approx({"10": 2.4, "25": 3.0, "50": 4.0, "75": 5.0, "90": 5.6})
    assert said["by_client"].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert FOUND._replace(returns=FOUND.returns[:1]).se is None


def test_a_table_in_a_terminal():
    lines = repr(FOUND).splitlines()
    assert lines[0].split() == ["mean", "worst", "10", "%", "25", "%", "50", "%", "75", "%", "90", "%"]
    assert lines[1].split() == ["all", "clients", "4.000", "2.000", "2.400", "3.000", "4.000", "5.000", "5.600"]
    assert lines[2].split() == ["client", "0", "2.000", "0.000", "0.400", "1.000", "2.000", "3.000", "3.600"]
    assert lines[-1] == str(FOUND).splitlines()[-1] == "by hand <here>"
    many = ClientReturns(np.zeros((1, MOST_ROWS + 3)), "")
    assert "… and 3 more clients, in .by_client" in repr(many)


def test_html_in_a_notebook():
    page = FOUND._repr_html_()
    assert page.count("<tr>") == 7
    assert "<td>client 4</td><td>6.000</td>" in page
    assert "by hand &lt;here&gt;" in page


def test_episodes_are_a_whole_number():
    nothing = Trained(*[None] * len(Trained._fields))
    with pytest.raises(TypeError, match="episodes expects a whole number or None, got the text '3'; write episodes=3"):
        client_returns.evaluate(nothing, "3")
