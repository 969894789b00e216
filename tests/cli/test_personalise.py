"""`fedrl personalise` on a real run of a tiny recipe."""

import json

import numpy as np
import pytest
from support import tiny_recipes
from support.command_line import said

import fedrl
from fedrl.experiments import find


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    before, home = find.recipe, tmp_path_factory.mktemp("home")
    tiny_recipes.finished_run("cart-pole", home / "poles")
    yield home
    find.recipe = before


def test_personalise(home, capsys):
    out = json.loads(said(capsys, "personalise", home / "poles", "--all", "--rounds", 1, "--episodes", 2, "--json"))
    assert [row["client"] for row in out["clients"]] == [0, 1, 2]
    assert out["clients"][0]["personal"].keys() == {"mean", "se"}
    assert (home / "poles" / "personal" / "PAvg" / "all-rounds-1" / "figures" / "personal.png").stat().st_size > 5000
    assert (
        json.loads((home / "poles" / "personal" / "PAvg" / "all-rounds-1" / "personal.json").read_text())["rounds"] == 1
    )
    place = home / "poles" / "personal" / "PAvg" / "all-rounds-1" / "client-2"
    run = fedrl.load(place)
    assert run.returns.shape == (2, 1)
    assert run.returns.mean() == pytest.approx(out["clients"][2]["personal"]["mean"])
    assert run.policy()(np.zeros(4, np.float32)) in (0, 1)
    text = said(capsys, "export", place, "--format", "numpy")
    assert "same actions" in text
    assert "client-2 is a personal policy, which has no environments of its own" in text
    text = said(
        capsys, "personalise", home / "poles", "--all", "--rounds", 1, "--episodes", 2
    )  # nothing is trained again
    assert "common policy, then 1 round on the client alone (5 environment steps)" in text
    assert "from scratch, as many rounds (5 steps)" in text
    assert "all-rounds-1/client-I, for fedrl.load" in text
    for arguments, sentence in (
        (["--rounds", 1], "say whom to personalise"),
        (["--rounds", 1, "--all", "--client", 1], "give one of the two"),
        (["--rounds", 1, "--client", 3], "there is no client 3; the run has 3, from 0 to 2"),
        (["--rounds", 1, "--client", 1, "--arm", "alone"], "this method learns no common policy"),
    ):
        assert sentence in said(capsys, "personalise", home / "poles", *arguments, code=2)
