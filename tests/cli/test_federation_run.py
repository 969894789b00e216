"""Commands on what a federation between organisations leaves: the server's run, and a site's folder."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.command_line import said
from support.organisations import CLIFF, Folders, LocalGrid

from fedrl.organisations import server_app, trips
from fedrl.organisations.status_file import STOPPED, StatusFile, read
from fedrl.policies import read_policy
from fedrl.records.train_folder import DifferentRun

AGREED = {
    "name": "cliffs", "rounds": 1, "max_episode_steps": 12, "episodes": 1, "spaces": CLIFF, "sites": {"a": 2, "b": 1},
    "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
}  # fmt: skip
ELSEWHERE = (
    "is the run of a federation between organisations, and its environments are at the sites; what works without"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Folders:
    """A federation that has played its round."""
    made = Folders(tmp_path_factory.mktemp("cliffs"), AGREED, {"a": "CliffWalking-v1", "b": "CliffWalking-v1"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trips, "LOOK", 0.0)
        grid = LocalGrid(made, {name: made.worker(name) for name in made.homes})
        server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
    return made


@pytest.mark.parametrize(
    "words",
    [("evaluate",), ("play",), ("personalise", "--all", "--rounds", 1), ("run", "--resume", "--out")],
    ids=lambda words: words[0],
)
def test_what_needs_the_environments_says_where_they_are(made, capsys, words):
    text = said(capsys, *words, made.server.run, code=2)
    assert f"{made.server.run} {ELSEWHERE} them is `fedrl export`" in text
    assert "stores it again" not in text


@pytest.mark.parametrize(
    "words", [("play", "{run}", "--task", 0), ("run", "{run}/run.toml")], ids=lambda words: words[0]
)
def test_nothing_but_serve_repeats_it(made, capsys, words):
    text = said(capsys, *(str(word).format(run=made.server.run) for word in words), code=2)
    assert "environments are at the sites; only `fedrl federation serve` continues it" in text


def test_it_is_whole(made, capsys):
    assert "makes no claims" in said(capsys, "verify", made.server.run)


def test_what_is_said_to_work_works(made, capsys, tmp_path):
    text = said(capsys, "export", made.server.run, "--out", tmp_path / "policy.py")
    assert "same actions" in text
    assert f"no episodes were played: {made.server.run} {ELSEWHERE}" in text
    assert "federated" in said(capsys, "cite", made.server.run).lower()
    said(capsys, "plot", made.server.run, "--out", tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").stat().st_size > 1000


def test_an_unfinished_run_is_continued_by_serve(made, capsys, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("run.toml", "log.jsonl"):
        (run / name).write_bytes((made.server.run / name).read_bytes())
    text = said(capsys, "export", run, "--out", tmp_path / "policy.py", code=2)
    assert text.endswith(
        f"{run} holds an unfinished run of a federation, 1 rounds so far, and no policy.safetensors yet; continue with "
        f"`fedrl federation serve {tmp_path}`; sites have the newest policy in their folders\n"
    )


def test_a_sites_policy_is_exported(made, capsys, tmp_path):
    """It acts as the file itself does."""
    home = made.homes["a"]
    text = said(capsys, "export", home, "--format", "numpy", "--client", 1, "--out", tmp_path / "policy.py")
    assert "no episodes were played: a site's environment is opened by `fedrl federation join` only" in text
    names: dict = {}
    exec((tmp_path / "policy.py").read_text(), names)
    act = read_policy(home / "policy.safetensors").policy()
    assert [names["act"](cell) for cell in range(48)] == [act(np.int64(cell)) for cell in range(48)]
    assert json.loads(said(capsys, "export", home, "--out", tmp_path / "again.py", "--json"))["played"] is None


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        (
            lambda home: (home / "policy.safetensors").unlink(),
            (),
            "has no policy yet; it comes with the first evaluation",
        ),
        (lambda home: (home / "adapter").mkdir(), (), "has a language agent, whose adapter is in"),
        (lambda home: None, ("--best",), "is a site's, which has the newest policy only; leave --best out"),
        (lambda home: None, ("--arm", "x"), "has no arms, so there is no arm 'x'; leave --arm out"),
    ],
)
def test_a_sites_policy_that_cannot_be_exported(made, capsys, tmp_path, change, words, sentence):
    home = tmp_path / "a"
    home.mkdir()
    for name in ("site.toml", "policy.safetensors"):
        (home / name).write_bytes((made.homes["a"] / name).read_bytes())
    change(home)
    assert sentence in said(capsys, "export", home, "--format", "numpy", *words, code=2)


def test_another_agreement_with_a_run_that_has_begun(made, monkeypatch):
    """A site more: what to do is said with the names of the files here, and no bytes of the run change."""
    before = {path: path.read_bytes() for path in made.server.run.rglob("*") if path.is_file()}
    agreed = made.server.agreement.read_text()
    try:
        made.server.agreement.write_text(agreed.replace("[sites]\n", "[sites]\nc = 1\n"))
        monkeypatch.setenv("FEDRL_FEDERATION_SERVER", str(made.server.home))
        made.server.state.mkdir()
        with pytest.raises(DifferentRun):
            server_app.main(None, SimpleNamespace(run_id=8))
    finally:
        made.server.agreement.write_text(agreed)
    status = read(made.server.status)
    assert status.state == STOPPED
    assert "federation.clients is 3 there, 4 here" in status.reason
    assert status.reason.endswith(
        "; to go on with that run, put back the federation.toml that it was begun with, here and at every site; to begin a "
        f"new one, move {made.server.run} away"
    )
    assert before == {path: path.read_bytes() for path in made.server.run.rglob("*") if path.is_file()}
