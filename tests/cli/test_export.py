"""`fedrl export` on real runs of a tiny recipe."""

import json
import shutil

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from support import tiny_recipes
from support.command_line import said
from support.small_runs import train

import fedrl
from fedrl.experiments import find


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    before, home = find.recipe, tmp_path_factory.mktemp("home")
    tiny_recipes.finished_run("cart-pole", home / "poles")
    yield home
    find.recipe = before


def test_a_recipes_policy_is_compared_and_plays(home, capsys, tmp_path):
    text = said(capsys, "export", home / "poles", "--format", "numpy", "--client", 1, "--policy-seed", 1)
    assert "numpy: same actions, largest difference 0.0e+00 on 10,000 observations" in text
    assert "10 episodes, " in text
    file = home / "poles" / "arms" / "PAvg" / "policy.py"
    names = {}
    exec(file.read_text(), names)
    assert names["ABOUT"]["recipe"] == "tiny"
    assert (names["ABOUT"]["arm"], names["ABOUT"]["client"], names["ABOUT"]["seed"]) == ("PAvg", 1, 1)
    run = fedrl.load(home / "poles" / "arms" / "PAvg")
    observation = np.array([0.1, -0.2, 0.03, 0.4], np.float32)
    assert names["act"](observation) == run.policy(client=1, seed=1)(observation)
    out = json.loads(
        said(
            capsys,
            "export",
            home / "poles" / "arms" / "PAvg",
            "--format",
            "numpy",
            "--out",
            tmp_path / "p.py",
            "--json",
        )
    )
    assert out["played"]["episodes"] == 10
    assert 10 <= out["played"]["steps"] == out["played"]["mean_return"] * 10  # a reward of one for every step
    assert out["played"]["agreement"]["observations"] == out["played"]["steps"]


def test_own_policies_and_arms(home, capsys):
    text = said(capsys, "export", home / "poles", "--format", "numpy", "--arm", "alone", code=2)
    assert "in the arm 'alone' every client has learnt a policy of its own" in text
    assert "choose one with --client 0 to 2, or another arm with --arm: 'PAvg'" in text
    assert "same actions" in said(
        capsys, "export", home / "poles", "--format", "numpy", "--arm", "alone", "--client", 2
    )


def test_mistakes_are_one_sentence(home, capsys, tmp_path):
    poles = home / "poles"
    unfinished = tmp_path / "unfinished"
    shutil.copytree(poles, unfinished)
    (unfinished / "arms" / "PAvg" / "returns.safetensors").unlink()
    other = tmp_path / "other"
    shutil.copytree(poles, other)
    file = other / "arms" / "PAvg" / "policy.safetensors"
    file.write_bytes(file.read_bytes().replace(b"fedrl-policy/1", b"fedrl-policy/9"))
    for arguments, sentence in (
        ([poles, "--format", "onx"], "there is no format 'onx'; did you mean 'onnx'?"),
        ([poles, "--format", "merged"], "for language agents"),
        ([poles], "say how to write the policy: --format numpy, onnx, torch, or --out with such a file's name"),
        (
            [poles, "--out", "p.txt"],
            "p.txt says no format, expected a suffix of .py (numpy), .onnx (onnx), .pt2 (torch)",
        ),
        (
            [poles, "--format", "numpy", "--out", "p.onnx"],
            "p.onnx is a name for onnx, and the format asked for is numpy; write p.py, or leave the format out",
        ),
        ([poles, "--format", "numpy", "--client", 7], "client must be a number from 0 to 2"),
        ([poles, "--format", "numpy", "--policy-seed", 7], "seed counts the run's seeds from 0 to 1, got 7"),
        ([poles, "--format", "numpy", "--out", poles], "is a folder, expected a file"),
        ([unfinished, "--format", "numpy"], "has no finished arm 'PAvg' yet; `fedrl run --resume"),
        ([other, "--format", "numpy"], "has the format 'fedrl-policy/9', expected 'fedrl-policy/1'"),
        ([tmp_path / "nowhere", "--format", "numpy"], "nowhere; pass that of a finished run"),
    ):
        text = said(capsys, "export", *arguments, code=2)
        assert sentence in text
        assert text.count("\n") == 1


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return train(tmp_path_factory.mktemp("own") / "run", seeds=2)


def test_a_run_of_train_plays_too(own, capsys, tmp_path):
    arguments = ["export", own.folder, "--out", tmp_path / "policy.py"]
    out = json.loads(said(capsys, *arguments, "--client", 2, "--policy-seed", 1, "--json"))
    assert out["not_played"] is None
    assert (out["played"]["episodes"], out["played"]["steps"]) == (10, 2000)
    report = own.export(tmp_path / "mine.py", client=2, seed=1)
    assert report.played.mean_return == out["played"]["mean_return"]
    assert report.played.agreement.holds
    assert "has no arms" in said(capsys, *arguments, "--arm", "x", code=2)


def test_why_a_run_of_train_does_not_play(own, capsys, tmp_path):
    """The file is written all the same, and it does not matter how the run's folder is called."""
    run = shutil.copytree(own.folder, tmp_path / "run.onnx")
    arguments = ["export", run, "--format", "numpy"]
    format, signature, rest = (run / "experiment.pkl").read_bytes().split(b"\n", 2)
    (run / "experiment.pkl").write_bytes(b"\n".join([format, signature[::-1], rest]))
    assert "no episodes were played: " in (text := said(capsys, *arguments))
    assert "was not written by you on this machine" in text
    assert (run / "policy.py").exists()
    assert "10 episodes, 2,000 steps, mean return" in said(capsys, *arguments, "--trust")
    (run / "experiment.pkl").unlink()
    out = json.loads(said(capsys, *arguments, "--json"))
    assert out["played"] is None
    assert "has no experiment.pkl" in out["not_played"]
    assert "no episodes were played: the environment was to be left alone" in said(capsys, *arguments, "--no-play")
    report = own.export(tmp_path / "new.py", observation_space=Discrete(4, dtype=np.int32))
    assert report.not_played.startswith("the policy is for the spaces that were passed")
