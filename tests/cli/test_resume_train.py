"""Runs of a user's script, with its own environment, seen from another folder: evaluate, play, plot, compare, verify,
resume."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from support.command_line import call

TANK = (Path(__file__).parents[1] / "support" / "tanks.py").read_text()
SCRIPT = """
import sys
import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.mlp import mlp
from tanks import Tank

class Leaky(Tank):
    def step(self, action):
        self.level -= 0.01
        return super().step(action)

def stop(row, rounds):
    if "stop" in sys.argv and row["round"] == 1:
        raise KeyboardInterrupt

federation = fedrl.gymnasium(lambda i: Leaky(0.03 + 0.01 * i), clients=2, max_episode_steps=6)
method = fedavg(gradient_learner(reinforce(horizon=4), eta=0.1, local_steps=1, policy=mlp(3)))
fedrl.train(method, federation, rounds=2, engine=one_at_a_time(), out=sys.argv[1], callback=stop)
"""


def script(folder: Path, *words: str) -> None:
    """Run the script in a process of its own; its folder is gone afterwards."""
    home = folder.parent / "scripts"
    home.mkdir(exist_ok=True)
    (home / "tanks.py").write_text(TANK)
    (home / "script.py").write_text(SCRIPT)
    path = os.pathsep.join(place for place in sys.path if place and "tests" not in Path(place).parts)
    done = subprocess.run(
        [sys.executable, "script.py", str(folder), *words], cwd=home, env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    shutil.rmtree(home)
    assert done.returncode == 0 or "KeyboardInterrupt" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    script(home / "whole")
    script(home / "stopped", "stop")
    return home


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def said(capsys, *words: object) -> str:
    capsys.readouterr()
    assert call(*words) == 0
    return capsys.readouterr().out


def refused(capsys, *words: object) -> str:
    capsys.readouterr()
    assert call(*words) == 2
    text = capsys.readouterr()
    assert text.out == ""
    assert text.err.count("\n") == 1
    return text.err


def test_evaluate(home, capsys):
    found = json.loads(said(capsys, "evaluate", home / "whole", "--episodes", 2, "--json"))
    (arm,) = found["arms"].values()
    assert list(found["arms"]) == ["fedavg"]
    assert len(arm["by_client"]) == 2
    assert 0.0 < arm["worst"] <= arm["mean"] < 6.0
    assert "has no arm 'other': fedrl.train wrote it" in refused(capsys, "evaluate", home / "whole", "--arm", "other")


def test_play(home, capsys):
    assert "6 steps, return" in said(capsys, "play", home / "whole", "--client", 1, "--out", "clip.gif")
    with Image.open("clip.gif") as image:
        assert image.n_frames == 7
    pytest.importorskip("imageio_ffmpeg")
    said(capsys, "play", home / "whole", "--steps", 3, "--out", "clip.mp4")
    assert Path("clip.mp4").read_bytes()[4:8] == b"ftyp"
    assert "there is no client 2; whole has 2" in refused(capsys, "play", home / "whole", "--client", 2)


def test_plot_and_compare(home, capsys):
    assert "return.png" in said(capsys, "plot", home / "whole")
    assert "final return" in said(capsys, "compare", home / "whole", "--out", "final.png")


def test_verify(home, capsys, monkeypatch):
    assert "makes no claims to decide; its folder is whole" in said(capsys, "verify", home / "whole")
    facts = json.loads(said(capsys, "verify", home / "whole", "--json"))
    assert facts["claims"] == facts["notes"] == []
    assert facts["files"]["checkpoint"] == "whole, of round 2"
    assert "unfinished run, 1 of 2 rounds" in refused(capsys, "verify", home / "stopped")
    broken = Path(shutil.copytree(home / "whole", "broken"))
    for file in broken.glob("checkpoint/*.json"):
        file.write_text("{}")
    assert "has no whole checkpoint (round-000002.json: truncated or altered)" in refused(capsys, "verify", broken)


def test_code_of_others_is_not_run(home, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    for words in (["evaluate", home / "whole"], ["play", home / "whole"], ["run", "--resume", "--out", home / "whole"]):
        capsys.readouterr()
        assert call(*words) == 2
        assert "not written by you on this machine" in capsys.readouterr().err
    assert "ask for --trust" in said(capsys, "verify", home / "whole")
    assert "fedavg" in said(capsys, "evaluate", home / "whole", "--episodes", 1, "--trust")


def test_resume_ends_with_the_same_bytes(home, capsys):
    folder = Path(shutil.copytree(home / "stopped", "stopped"))
    assert "its script decides its settings; drop --seeds" in refused(
        capsys, "run", "--resume", "--out", folder, "--seeds", 2
    )
    assert "a run of fedrl.train, to round 2" in said(capsys, "run", "--resume", "--out", folder)
    for name in ("policy.safetensors", "returns.safetensors", "best.safetensors"):
        assert (folder / name).read_bytes() == (home / "whole" / name).read_bytes()
    stored = (folder / "experiment.pkl").read_bytes()
    assert json.loads(said(capsys, "run", "--resume", "--out", folder, "--json"))["round"] == 2
    assert (folder / "experiment.pkl").read_bytes() == stored


def test_folders_of_earlier_versions(home, capsys):
    folder = Path(shutil.copytree(home / "whole", "old"))
    (folder / "experiment.pkl").unlink()
    for words in (["evaluate", folder], ["play", folder], ["run", "--resume", "--out", folder]):
        assert "has no experiment.pkl (it could not be stored, or an earlier version" in refused(capsys, *words)
    (folder / "run.toml").unlink()
    (folder / "seeds.json").write_text('{"first": 0, "count": 1}')
    assert "has no experiment.pkl" in refused(capsys, "evaluate", folder)
    assert "its folder is whole" in said(capsys, "verify", folder)
