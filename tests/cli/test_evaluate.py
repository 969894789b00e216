"""Returns of fresh episodes, and runs played by another engine than the recipe's; real runs of tiny recipes."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import tiny_recipes
from support.command_line import call, load_arm

from fedrl.cli import engines
from fedrl.cli.evaluate import returns, summary
from fedrl.cli.run import resume_command
from fedrl.engines import processes
from fedrl.engines.fused import fused
from fedrl.experiments import experiment, find, orders, outcomes
from fedrl.records import folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    before, home = find.recipe, tmp_path_factory.mktemp("home")
    for kind in ("cart-pole", "finite"):
        tiny_recipes.finished_run(kind, home / kind)
    yield home
    find.recipe = before


def evaluated(capsys, *arguments: object) -> dict:
    capsys.readouterr()
    assert call("evaluate", *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_episodes_are_fresh_and_come_again(home, capsys):
    run = home / "cart-pole"
    first = evaluated(capsys, run, "--episodes", 2)
    assert json.loads((run / "evaluation.json").read_text()) == {k: v for k, v in first.items() if k != "file"}
    assert (run / "figures" / "evaluation.png").stat().st_size > 10_000
    assert list(first["arms"]) == ["PAvg", "alone"]
    assert "2 fresh episodes" in first["arms"]["PAvg"]["how"]
    for name, arm in first["arms"].items():
        found = np.array(arm["returns"])
        assert found.shape == (2, 3)
        np.testing.assert_array_equal(2 * found, np.rint(2 * found))  # a mean of two whole numbers
        trained = outcomes.of_arm(outcomes.arm_folder(run, name)).returns  # of as many episodes, but not these
        assert (found != trained).any()
    again = evaluated(capsys, run, "--episodes", 2, "--arm", "alone")
    assert again["arms"] == {"alone": first["arms"]["alone"]}
    other = evaluated(capsys, run, "--episodes", 2, "--arm", "alone", "--seed", 1)
    assert other["arms"]["alone"]["returns"] != again["arms"]["alone"]["returns"]


def test_engines_evaluate_alike(home):
    it = load_arm(home / "cart-pole", "PAvg")
    compiled = it._replace(arm=it.arm._replace(engine=fused()))
    np.testing.assert_array_equal(returns(it, 3, 0), returns(compiled, 3, 0))


def test_finite_worlds_are_solved_exactly(home, capsys):
    said = evaluated(capsys, home / "finite", "--episodes", 1)["arms"]["PAvg"]
    assert said["how"].startswith("exact discounted return")
    trained = outcomes.of_arm(outcomes.arm_folder(home / "finite", "PAvg")).returns
    np.testing.assert_allclose(said["returns"], trained, rtol=1e-6)
    assert call("evaluate", home / "finite" / "run.toml") == 0
    table = capsys.readouterr().out
    assert f"{said['mean']:.3f}" in table
    assert "worst client" in table
    assert "--episodes and --seed do not matter" in table


def test_the_most_likely_actions(home, capsys):
    """Other returns than those of drawn actions, the same from any engine, and said so; finite worlds exactly."""
    run = home / "cart-pole"
    drawn, likely = (
        evaluated(capsys, run, "--episodes", 2, "--arm", "PAvg", *more) for more in ([], ["--deterministic"])
    )
    assert (drawn["deterministic"], likely["deterministic"]) == (False, True)
    assert likely["arms"]["PAvg"]["how"].endswith("; always the most likely action")
    assert likely["arms"]["PAvg"]["returns"] != drawn["arms"]["PAvg"]["returns"]
    it = load_arm(run, "PAvg")
    np.testing.assert_array_equal(returns(it, 2, 0, True), likely["arms"]["PAvg"]["returns"])
    drawn, likely = (evaluated(capsys, home / "finite", "--arm", "PAvg", *more) for more in ([], ["--deterministic"]))
    assert likely["arms"]["PAvg"]["how"].endswith("; always the most likely action")
    assert np.mean(likely["arms"]["PAvg"]["returns"]) != np.mean(drawn["arms"]["PAvg"]["returns"])


def test_the_summary_by_hand():
    found = np.array([[0.0, 1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0, 8.0]])
    said = summary(found)
    assert (said["mean"], said["se"], said["worst"]) == (4.0, 2.0, 2.0)
    assert said["quantiles"] == pytest.approx({"10": 2.4, "25": 3.0, "50": 4.0, "75": 5.0, "90": 5.6})
    assert said["by_client"].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert summary(found[:1])["se"] is None


def refused(capsys, *arguments: object) -> str:
    capsys.readouterr()
    assert call(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("fedrl: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate", "cart-pole", "--episodes", 0], "--episodes expects a whole number of at least 1, got 0"),
        (["evaluate", "cart-pole", "--arm", "along"], "tiny has no arm 'along'; did you mean 'alone'?"),
        (["evaluate", "cart-pole", "--arm", "zzz"], "tiny has no arm 'zzz'; it has 'PAvg', 'alone'"),
        (["evaluate", "nowhere"], "cannot read nowhere"),
        (["evaluate", "cart-pole/arms"], "cannot read cart-pole/arms/run.toml"),
        (["play", "finite"], "there is nothing to draw in this run; cart-pole, mountain car,"),
        (
            ["run", "tiny", "--engine", "proceses"],
            "one_at_a_time, processes, ray, flower: did you mean",
        ),
        (["run", "tiny", "--engine", "fused", "--address", "auto"], "--address auto is where a Ray cluster is; add"),
        (["run", "tiny", "--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1 ("),
        (["run", "tiny", "--workers", 2], "--workers 2 is for the engines processes and ray"),
        (["run", "tiny", "--engine", "processes", "--workers", 0], "`fedrl run --help` shows what it takes"),
    ],
)
def test_bad_input_is_one_sentence(home, capsys, monkeypatch, arguments, expected):
    monkeypatch.chdir(home)
    assert expected in refused(capsys, *arguments)
    assert not Path("runs").exists()


def test_simulators_cannot_be_fused(home, capsys, monkeypatch, tmp_path):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    message = refused(capsys, "run", "tiny", "--set", "kind=hopper", "--engine", "vmap")
    assert "--engine vmap compiles everything" in message
    assert not Path("runs").exists()


def counted(engine, choice, built):
    def build(*arguments):
        built.append(choice)
        return engine(*arguments)

    return build


def test_a_run_stopped_under_one_engine_goes_on_under_another(home, capsys, monkeypatch, tmp_path):
    """The engine is no part of run.toml; fused, then processes, gives the bytes of one_at_a_time alone."""
    monkeypatch.chdir(tmp_path)
    built = []
    for name, make in engines.ENGINES.items():
        monkeypatch.setitem(engines.ENGINES, name, lambda choice, make=make: counted(make(choice), choice, built))
    assert call("run", "tiny", "--set", "kind=finite", "--engine", "one_at_a_time", "--out", "whole") == 0
    order = orders.order("tiny", overrides={"kind": "finite"})

    def stop(arm: str, row: dict, rounds: int) -> None:
        raise KeyboardInterrupt

    with folder.claim("parts", order.plain(), resume=False) as place, pytest.raises(KeyboardInterrupt):
        experiment.run(order, place, engine=fused(), callback=stop, warn=pytest.fail)
    assert "has no finished arm 'PAvg' yet" in refused(capsys, "evaluate", "parts")
    try:
        assert call("run", "--resume", "--out", "parts", "--engine", "processes", "--workers", 1) == 0
    finally:
        processes.stop()
    assert [(it.name, it.workers) for it in built] == [("one_at_a_time", None)] * 2 + [("processes", 1)] * 2
    whole, parts = (outcomes.arm_folder(Path(name), "PAvg") / "policy.safetensors" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()
    assert Path("whole/run.toml").read_bytes() == Path("parts/run.toml").read_bytes()
    rounds = [row["round"] for row in outcomes.of_arm(parts.parent).rows]
    assert rounds == list(range(7))


def test_the_command_that_goes_on_names_the_engine():
    choice = engines.Choice("ray", "10.0.0.1:6379", 4)
    expected = "fedrl run --resume --out 'my runs/a' --engine ray --address 10.0.0.1:6379 --workers 4"
    assert resume_command(Path("my runs/a"), choice) == expected
    assert resume_command(Path("a"), engines.Choice()) == "fedrl run --resume --out a"
