"""Runs of language agents at the command line: transcripts and labels of one tiny run (about 50 s of CPU)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import tiny_recipes
from support.command_line import call, load_arm
from transformers import AutoModelForCausalLM, AutoTokenizer

from fedrl.cli import agents
from fedrl.cli.evaluate_agents import rates
from fedrl.client_returns import evaluate
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, find, orders
from fedrl.llm import labels
from fedrl.recipes.fedagent import _study
from fedrl.records.folder import claim

TINY = {
    "products": 8, "demonstrations": 4, "width": 16, "clients": 4, "tasks_each": 5, "per_round": 1, "tasks": 2, "group": 4,
    "local_epochs": 1, "rounds": 2, "evaluate": 4, "eval_every": 1,
}  # fmt: skip
POOL = 31  # tasks


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A finished run in `run`, and in `parts` the same when it was stopped after its first round."""
    home = tmp_path_factory.mktemp("home")
    order = orders.order("fedagent/quickstart", overrides=TINY, seeds=1)
    settings = pytest.MonkeyPatch()
    settings.setenv("XDG_CACHE_HOME", str(home / "cache"))
    settings.chdir(home)

    def stop(arm: str, row: dict, rounds: int) -> None:
        if row["round"] == 1:
            raise KeyboardInterrupt

    with claim("run", order.plain(), resume=False) as folder:
        with pytest.raises(KeyboardInterrupt):
            experiment.run(order, folder, engine=one_at_a_time(), callback=stop, warn=pytest.fail)
        shutil.copytree("run", "parts")
        experiment.run(order, folder, engine=one_at_a_time(), warn=pytest.fail)
    yield home
    settings.undo()


def said(capsys, *arguments: object) -> str:
    capsys.readouterr()
    assert call(*arguments) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: object) -> str:
    capsys.readouterr()
    assert call(*arguments) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith("fedrl: ")
    assert answer.err.count("\n") == 1
    return answer.err


def test_a_transcript_is_printed_and_written(home, capsys):
    out = said(capsys, "play", "run", "--task", 2)
    study = _study.Study(orders.from_toml("run").config)
    number = int(study.application.held_out[2])
    assert f"2 of those held out, number {number} of webshop" in out
    assert "FedAgent, after 2 rounds with seed 0" in out
    assert "temperature 0.4" in out
    with study.application.environment.make() as env:
        first = env.reset(options={"task": number})[0]
    assert first.split()[:6] == out.partition("step 1 ")[2].split()[1:7]
    actions = re.findall(r"^says and does  (.+)$", out, re.MULTILINE)
    assert actions
    assert out.count("reward  ") == len(actions)
    assert re.search(rf"^(not )?won, score [01]\.\d+, {len(actions)} steps?$", out, re.MULTILINE)
    page = (home / "run" / "figures" / "task-2.html").read_text()
    assert page.count("<section>") == len(actions)
    assert said(capsys, "play", "run", "--task", 2) == out
    assert (home / "run" / "figures" / "task-2.html").read_text() == page


def test_held_out_tasks_are_played_again(home, capsys):
    out = said(capsys, "evaluate", "run", "--arm", "FedAgent")
    assert "each played once with other draws than in training" in " ".join(out.split())
    found = json.loads((home / "run" / "evaluation-FedAgent.json").read_text())
    (arm,) = found["arms"].values()
    assert 0 <= arm["success"]["mean"] <= arm["score"]["mean"] <= 1
    assert arm["success"]["se"] is None  # one seed
    types = {kind: summary for kind, summary in arm.items() if kind.startswith("success/")}
    assert types
    it = load_arm(home / "run", "one client alone")
    alone = it._replace(engine=one_at_a_time())
    first, again, other, more = (rates(alone, *how) for how in ((1, 0), (1, 0), (1, 1), (2, 0)))
    assert first["score"] == again["score"] != other["score"]
    assert first["score"] != more["score"]
    assert 8 * more["success"][0] in range(9)  # 4 tasks, twice
    parts = evaluate(alone)
    assert (parts.unit, len(parts.returns)) == ("part", 1)
    assert 0 <= parts.worst <= parts.mean <= 1


def test_another_seed_and_another_arm(home, capsys, tmp_path):
    out = said(capsys, "play", "run", "--task", 1, "--arm", "one client alone", "--out", tmp_path / "new" / "page.html")
    assert "one client alone, after 2 rounds" in out
    assert (tmp_path / "new" / "page.html").read_text().startswith("<!doctype html>")
    tries = {said(capsys, "play", "run", "--task", 1, "--seed", s).partition("step 1 ")[2] for s in range(3)}
    assert len(tries) > 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["play", "run"], "run is a run of language agents, whose episodes are text; give --task 0"),
        (["play", "run", "--out", "page.html"], "give --task 0"),
        (["play", "run", "--task", 4], "there is no held-out task 4; fedagent/quickstart has 4, from 0 to 3"),
        (["play", "run", "--task", -1], "there is no held-out task -1"),
        (["play", "run", "--task", 0, "--out", "a.gif"], "a transcript needs a name that ends in .html, got a.gif"),
        (
            ["play", "run", "--task", 0, "--client", 1],
            "--client is for episodes drawn as a clip, --task for transcripts",
        ),
        (["play", "run", "--task", 0, "--steps", 1], "--steps is for episodes drawn as a clip"),
        (["play", "run", "--task", 0, "--arm", "alone"], "has no arm 'alone'; did you mean 'one client alone'?"),
        (["play", "parts", "--task", 0], "parts has no finished arm 'FedAgent' yet; `fedrl run --resume --out parts`"),
        (["play", "nowhere", "--task", 0], "cannot read nowhere"),
        (["evaluate", "run", "--episodes", 0], "--episodes expects a whole number of at least 1, got 0"),
        (["evaluate", "run", "--deterministic"], "language agents choose texts word by word; leave it out"),
        (["agents", "label", "nowhere"], "cannot read nowhere"),
        (["agents", "label", "run", "--episodes", 0], "`fedrl agents label --help` shows what it takes"),
        (
            ["agents", "label", "parts", "--arm", "one client alone"],
            "no whole checkpoint of 'one client alone' yet; `fed",
        ),
    ],
)
def test_bad_input_is_one_sentence(home, capsys, arguments, expected):
    assert expected in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("files", "application", "expected"),
    [
        ({}, "webshop", "nowhere has 0 files items_shuffle*.json, expected one"),
        ({"items_shuffle_1.json": '[{"asin": "B'}, "webshop", "record 1 stops in the middle, expected a JSON list of pro"),
        ({"items_shuffle_1.json": '{"a": 1}'}, "webshop", "'{' came at the start, expected '[' of a JSON list of products"),
        ({}, "household", "there is no folder nowhere; run alfworld-download, or take generated games"),
        ({"train/traj_data.json": '{"task_type": "x"}'}, "household", "no solvable game of type Pick, Look, Clean, Heat"),
        (
            {"train/traj_data.json": '{"task_type": "pick_and_place_simple"}', "train/game.tw-pddl": '{"solvable": true}'},
            "household",
            "lacks pddl_domain, grammar, pddl_problem: it is no game of ALFWorld 0.2 or later; download it again",
        ),
    ],
)  # fmt: skip
def test_data_that_cannot_be_used(capsys, tmp_path, monkeypatch, files, application, expected):
    monkeypatch.chdir(tmp_path)
    rest = {"items_ins_v2_1.json": "{}", "items_human_ins.json": "{}"} if application == "webshop" and files else {}
    for name, text in (files | rest).items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(text)
    data = "data" if files else "nowhere"
    assert call("run", "fedagent/quickstart", "--set", f"application={application}", "--set", f"data={data}") == 2
    assert expected in " ".join(capsys.readouterr().err.split())


def test_runs_without_language_agents(home, capsys, tmp_path, monkeypatch):
    before = find.recipe
    monkeypatch.setattr(find, "recipe", before)  # put back afterwards
    tiny_recipes.finished_run("finite", tmp_path / "run")
    message = refused(capsys, "play", tmp_path / "run", "--task", 0)
    assert "--task is for runs of language agents, and tiny has none; --client I draws" in message
    message = refused(capsys, "agents", "label", tmp_path / "run")
    assert "labels are of language agents' tasks, and tiny has none; pass a run of fedagent/" in message


def test_a_recipe_that_trains_nothing(home, capsys, tmp_path):
    (tmp_path / "run.toml").write_text(
        'recipe = "fedagent/partitions"\n[config]\nproducts = 8\ndemonstrations = 4\n'
        "evaluate = 4\nclients = 4\ntasks_each = 5\n"
    )
    for words in (["play", tmp_path, "--task", 0], ["agents", "label", tmp_path]):
        assert "fedagent/partitions trains no agents; pass a run of another recipe" in refused(capsys, *words)


def test_labels_of_a_run_stopped_and_gone_on_with(home, capsys, monkeypatch):
    monkeypatch.setattr(labels, "EPISODES_AT_ONCE", 16)

    class Stopping(agents.ProgressText):
        def __call__(self, won):
            if len(won) == 16:
                signal.raise_signal(signal.SIGINT)
            return super().__call__(won)

    with monkeypatch.context() as patch:
        patch.setattr(agents, "ProgressText", Stopping)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        assert call("agents", "label", "run", "--out", "mine.json") == 130
        signal.signal(signal.SIGINT, handler)
    err = capsys.readouterr().err
    assert err == "Stopped; nothing is lost. Go on with: fedrl agents label run --out mine.json\n"
    assert len(json.loads(Path("mine.json").read_text())["won"]) == 16
    out = said(capsys, "agents", "label", "run", "--out", "mine.json")
    assert "FedAgent after round 2 of 2: the tasks of webshop" in out
    assert f"16 of {POOL} tasks labelled" in out
    assert f"{POOL} of {POOL} tasks labelled" in out
    content = json.loads(Path("mine.json").read_text())
    assert content["by"] | {"round": 2, "arm": "FedAgent", "model": "pocket", "run": "run"} == content["by"]
    study = _study.Study(orders.from_toml("run").config)
    assert [int(task) for task in content["won"]] == study.application.pool.tolist()
    solved = labels.read("mine.json", study.settings, study.application.pool)
    assert solved.tolist() == list(content["won"].values())
    assert re.search(rf"^all +{POOL} +{solved.mean():.3f}$", out, re.MULTILINE)
    message = refused(capsys, "agents", "label", "run", "--before", "--out", "mine.json")
    assert "mine.json has other labels (theta is" in message


def test_which_model_labels(home):
    """The last, that of the newest checkpoint, or that before training."""
    order = orders.from_toml("run")
    last, stopped = (agents.newest_agent(order, Path(run), None, before=False) for run in ("run", "parts"))
    before = agents.newest_agent(order, Path("parts"), None, before=True)
    assert (before.round, stopped.round, last.round, last.rounds) == (0, 1, 2, 2)
    first, kept = last.study.spec.first(), agents.trained_agent(order, Path("run"), None).theta
    for name in first:
        np.testing.assert_array_equal(before.theta[name], first[name])
        np.testing.assert_array_equal(last.theta[name], kept[name])
    assert any((stopped.theta[name] != last.theta[name]).any() for name in first)
    assert any((stopped.theta[name] != first[name]).any() for name in first)


def test_time_left_is_judged_by_what_was_done_since():
    now = iter([0.0, 10.0, 20.0])
    news = agents.ProgressText(100, clock=lambda: next(now))
    assert news(dict.fromkeys(range(40), 0.5)) == ", 50% won"
    assert news(dict.fromkeys(range(60), 0.5)) == ", 50% won, 0:20 left"
    assert news(dict.fromkeys(range(100), 1.0)) == ", 100% won"


def test_help(home, capsys):
    assert "label" in said(capsys, "agents")
    assert "--before" in said(capsys, "agents", "label", "--help")
    assert "held-out task" in " ".join(said(capsys, "play", "--help").split())


WITHOUT = """
import sys
sys.modules["torch"] = None
from fedrl.cli import agents, play, transcript
from fedrl.cli.app import app
from fedrl.cli.errors import guard
assert not [name for name in sys.modules if name.startswith(("fedrl.llm", "transformers"))]
for words in (["agents", "label", "run"], ["play", "run", "--task", "0"]):
    assert guard(lambda: app(words, standalone_mode=False)) == 2
"""


def test_without_the_extra(home):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=home, env=os.environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "fedrl: language agents need torch: pip install 'fedrl[llm]'\n" * 2


def test_export_of_an_agent(home, capsys):
    """`pocket` trains all its parameters: it leaves as a whole model, not as an adapter."""
    assert "largest difference of logits" in said(capsys, "export", "run", "--format", "merged", "--out", "whole")
    there = AutoModelForCausalLM.from_pretrained(home / "whole")
    assert len(AutoTokenizer.from_pretrained(home / "whole")) == there.config.vocab_size
    assert "has no adapter; export it as 'merged'" in refused(capsys, "export", "run", "--format", "peft", "--out", "a")
    assert "exported as peft or merged, got 'onnx'" in refused(
        capsys, "export", "run", "--format", "onnx", "--out", "a"
    )
    assert "seeds are counted from 0 to 0, got 1" in refused(
        capsys, "export", "run", "--format", "merged", "--out", "a", "--policy-seed", 1
    )
    assert "language agents are not personalised yet" in refused(
        capsys, "personalise", "run", "--client", 0, "--rounds", 1
    )
    assert not (home / "a").exists()
