"""Returns of fresh episodes, and runs played by another engine than the recipe's; real runs of tiny recipes."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from support import tiny_recipes
from support.command_line import call, load_arm

import fedrl
from fedrl.cli import engines
from fedrl.cli.request import resume_command
from fedrl.client_returns import evaluate
from fedrl.engines import local_processes
from fedrl.engines.fused import fused
from fedrl.experiments import experiment, find, orders, outcomes, restore
from fedrl.records import folder, policy_file
from fedrl.records.tensors import named_leaves
from fedrl.trained import acting_with


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
    assert again["file"] == str(run / "evaluation-alone.json")
    assert list(json.loads((run / "evaluation.json").read_text())["arms"]) == ["PAvg", "alone"]
    other = evaluated(capsys, run, "--episodes", 2, "--arm", "alone", "--seed", 1)
    assert other["arms"]["alone"]["returns"] != again["arms"]["alone"]["returns"]


def test_engines_evaluate_alike(home):
    it = load_arm(home / "cart-pole", "PAvg")
    compiled = it._replace(engine=fused())
    np.testing.assert_array_equal(evaluate(it, 3).returns, evaluate(compiled, 3).returns)


def test_finite_worlds_are_solved_exactly(home, capsys):
    said = evaluated(capsys, home / "finite", "--episodes", 1)["arms"]["PAvg"]
    assert said["how"].startswith("exact discounted return")
    trained = outcomes.of_arm(outcomes.arm_folder(home / "finite", "PAvg")).returns
    np.testing.assert_allclose(said["returns"], trained, rtol=1e-6)
    assert call("evaluate", home / "finite" / "run.toml") == 0
    table = capsys.readouterr().out
    assert f"{said['mean']:.3f}" in table
    assert "worst client" in table
    assert "episodes and seed do not matter" in table


def stored(it) -> dict[str, np.ndarray]:
    """What the policy file of this federation would hold."""
    found = policy_file.content(it.algorithm, it.federation, it.state, range(2), "").tensors
    return {name: np.asarray(leaf) for name, leaf in named_leaves(found).items()}


@pytest.mark.parametrize("arm", ["PAvg", "alone"])
def test_the_best_policy_is_put_in_the_place_of_the_last(home, arm):
    """Of a server's parameters, and of those that each client has of its own."""
    place = home / "cart-pole" / "arms" / arm
    best, last = fedrl.load(place).best, fedrl.load(place).trained()
    chosen = restore.run(place, best=True).arms[arm]
    assert chosen.round == best.header["rounds"]
    other = best._replace(tensors={name: tensor + 1 for name, tensor in best.tensors.items()})
    for it, policy in ((chosen, best), (acting_with(last, other), other), (last, fedrl.load(place).saved)):
        found = stored(it)
        assert found.keys() == policy.tensors.keys()
        for name, tensor in policy.tensors.items():
            np.testing.assert_array_equal(found[name], tensor)


def test_the_best_policy_that_its_file_does_not_hold(home):
    last, best = fedrl.load(home / "cart-pole/arms/alone").trained(), fedrl.load(home / "cart-pole/arms/alone").best
    computed = best._replace(header={key: it for key, it in best.header.items() if key != "own_tensors"})
    with pytest.raises(ValueError, match="from their memories, which the file of the best policy does not hold"):
        acting_with(last, computed)
    it = load_arm(home / "cart-pole", "PAvg")
    answer = it.algorithm.answer
    doubled = it.algorithm._replace(answer=lambda server: jax.tree.map(lambda x: 2 * x, answer(server)))
    with pytest.raises(ValueError, match="the server of this run computes the parameters"):
        acting_with(it._replace(algorithm=doubled), fedrl.load(home / "cart-pole/arms/PAvg").best)


def test_an_arm_is_evaluated_from_python_as_by_the_command_line(home, capsys, monkeypatch):
    """By its own folder, or by that of a run with one arm; its own folder is also what the command line takes."""
    said = evaluated(capsys, home / "finite" / "arms" / "PAvg")
    assert said["run"] == str(home / "finite")
    found = [fedrl.load(folder).evaluate() for folder in (home / "finite", home / "finite" / "arms" / "PAvg")]
    for it in found:
        np.testing.assert_array_equal(it.returns, said["arms"]["PAvg"]["returns"])
    with pytest.raises(
        ValueError, match=r"was not kept; train with keep_best=True \(a recipe: fedrl run --keep-best\)"
    ):
        fedrl.load(home / "finite").evaluate(best=True)
    monkeypatch.setattr(orders, "code_note", lambda path, order: "the recipe has changed")
    with pytest.warns(UserWarning, match="the recipe has changed"):
        fedrl.load(home / "finite").trained()


def test_a_recipe_ends_early_and_is_judged(home, capsys, tmp_path):
    """At the first return that is enough; the target is part of the run, and its best policy is kept."""
    returns = [row["return"] for row in outcomes.of_arm(home / "finite/arms/PAvg").rows]
    end = int(np.argmax(returns[:5]))
    run = tmp_path / "run"
    assert call("run", "tiny", "--set", "kind=finite", "--stop-at", returns[end], "--out", run) == 0
    assert f"ended early: PAvg in round {end} of 6" in capsys.readouterr().out
    assert fedrl.load(run).best.header["rounds"] == fedrl.load(run).saved.header["rounds"] == end
    assert orders.from_toml(run).ending.stop_at == returns[end]
    assert call("verify", run, "--json") == 0
    assert f"PAvg in round {end} of 6" in json.loads(capsys.readouterr().out)["notes"][0]
    np.testing.assert_allclose(evaluated(capsys, run, "--best")["arms"]["PAvg"]["mean"], returns[end], rtol=1e-5)
    assert (run / "evaluation-best.json").exists()
    assert "holds a different run (stop_at is" in refused(capsys, "run", "--resume", "--out", run, "--stop-at", 1e9)


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
    np.testing.assert_array_equal(evaluate(it, 2, deterministic=True).returns, likely["arms"]["PAvg"]["returns"])
    drawn, likely = (evaluated(capsys, home / "finite", "--arm", "PAvg", *more) for more in ([], ["--deterministic"]))
    assert likely["arms"]["PAvg"]["how"].endswith("; always the most likely action")
    assert np.mean(likely["arms"]["PAvg"]["returns"]) != np.mean(drawn["arms"]["PAvg"]["returns"])


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
        (["evaluate", "cart-pole/verdict.json"], "cart-pole/verdict.json is not valid TOML ("),
        (["cite", "cart-pole/verdict.json"], "cart-pole/verdict.json is not valid TOML ("),
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
        local_processes.stop()
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
