"""What a run can do, in memory and next week: evaluated, looked at, ended early, its best policy, and what it refuses."""

import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from support.federations import federation
from support.small_runs import METHOD, train

import fedrl
from fedrl.finished_run import Run
from fedrl.policies import saved
from fedrl.records import returns_file

ROUNDS = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return train(tmp_path_factory.mktemp("home") / "run", rounds=ROUNDS, seeds=2)


def test_it_is_evaluated_in_memory_and_next_week(run):
    measured = run.evaluate()
    np.testing.assert_allclose(measured.returns, run.returns, rtol=1e-6)
    np.testing.assert_array_equal(fedrl.load(run.folder).evaluate().returns, measured.returns)
    assert measured.returns.shape == (2, 3)
    likely = run.evaluate(deterministic=True)
    assert likely.how.endswith("; always the most likely action")
    assert (likely.returns != measured.returns).any()
    with pytest.raises(ValueError, match="episodes.* at least 1, got 0"):
        run.evaluate(episodes=0)


def test_a_run_without_a_folder_is_evaluated(run):
    without = train(None, rounds=ROUNDS, seeds=2)
    np.testing.assert_array_equal(without.evaluate().returns, run.evaluate().returns)
    np.testing.assert_array_equal(without.best.tensors["theta"], run.best.tensors["theta"])


def test_finished_it_is_not_evaluated_again(run, tmp_path):
    """`train` called again, as when a notebook is run again, reads the returns; a damaged file is written anew."""
    folder = shutil.copytree(run.folder, tmp_path / "run")
    marked = run.returns + 1.0
    returns_file.write(folder, marked, ROUNDS)
    np.testing.assert_array_equal(train(folder, rounds=ROUNDS, seeds=2).returns, marked)
    (folder / returns_file.NAME).write_bytes(b"garbage")
    notes = []
    np.testing.assert_array_equal(train(folder, rounds=ROUNDS, seeds=2, warn=notes.append).returns, run.returns)
    assert "returns.safetensors cannot be read" in notes[0]
    np.testing.assert_array_equal(fedrl.load(folder).returns, run.returns)


def test_how_it_looks(run):
    text = repr(run)
    assert text.startswith(f"Run(fedavg, 3 clients, 2 seeds, {ROUNDS} rounds, return ")
    assert str(run.folder) in text
    assert "\n" not in text
    page = run._repr_html_()
    assert page.count("<svg") == 1
    assert "<?xml" not in page
    assert "<td>client 2</td>" in page


def test_a_frame_if_pandas_is_there(run, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = run.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["round"].tolist() == list(range(ROUNDS + 1))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fedrl\[frames\]', or use run.rows"):
        run.frame()


def test_the_best_policy_is_that_of_the_best_round(run, tmp_path):
    returns = [row["return"] for row in run.rows]
    best = int(np.argmax(returns))
    loaded = fedrl.load(run.folder)
    for it in (run, loaded):
        assert it.best.header["rounds"] == best
    shorter = train(tmp_path / "shorter", rounds=max(best, 1), seeds=2)
    tensors = shorter.saved.tensors if best else shorter.best.tensors
    np.testing.assert_array_equal(loaded.best.tensors["theta"], tensors["theta"])
    assert loaded.policy(best=True)(0) in range(3)
    for it in (run, loaded):
        np.testing.assert_allclose(it.evaluate(best=True).mean, max(returns), rtol=1e-5)
    not_kept = train(None, rounds=1, keep_best=False)
    with pytest.raises(ValueError, match="was not kept; train with keep_best=True"):
        not_kept.policy(best=True)


def halfway(rows) -> tuple[float, int]:
    """A return that is reached in the middle of the run, and the first round that reaches it."""
    returns = [row["return"] for row in rows]
    round = int(np.argmax(returns[: ROUNDS - 1]))
    return returns[round], next(i for i, value in enumerate(returns) if value >= returns[round])


def test_it_ends_when_the_return_is_reached(run, tmp_path):
    """Called again it stays where it is; without the target it goes on, to the bytes of a run that never had one."""
    target, round = halfway(run.rows)
    early = train(tmp_path / "early", rounds=ROUNDS, seeds=2, stop_at=target)
    assert early.rows[-1]["round"] == round
    again = train(tmp_path / "early", rounds=ROUNDS, seeds=2, stop_at=target)
    assert len(again.rows) == len(early.rows)
    longer = train(tmp_path / "early", rounds=ROUNDS, seeds=2)
    for name in ("policy.safetensors", "returns.safetensors", "best.safetensors"):
        assert (tmp_path / "early" / name).read_bytes() == (run.folder / name).read_bytes()
    assert len(longer.rows) == ROUNDS + 1


def test_patience(tmp_path):
    """It ends with the first evaluation that is no better than the one before, as seen in a run that goes on."""
    returns = [row["return"] for row in train(None, rounds=9).rows]
    worse = next(i for i in range(1, 9) if returns[i] <= max(returns[:i]))
    assert train(tmp_path / "run", rounds=9, patience=1).rows[-1]["round"] == worse < 9
    with pytest.raises(ValueError, match="patience.* at least 1, got 0"):
        train(tmp_path / "other", patience=0)


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "interrupted"

    def callback(row, rounds):
        if row["round"] == 2:
            raise Stop

    with pytest.raises(Stop):
        train(folder, rounds=ROUNDS, seeds=2, callback=callback)
    return folder


def test_an_interrupted_run_keeps_the_best_so_far(run, interrupted, tmp_path):
    folder = Path(shutil.copytree(interrupted, tmp_path / "copy"))
    returns = [row["return"] for row in run.rows[:3]]
    assert saved.read(folder / "best.safetensors").header["rounds"] == int(np.argmax(returns))
    train(folder, rounds=ROUNDS, seeds=2)
    for name in ("policy.safetensors", "returns.safetensors", "best.safetensors"):
        assert (folder / name).read_bytes() == (run.folder / name).read_bytes()


def test_unfinished_runs_say_what_to_do(interrupted, tmp_path):
    with pytest.raises(ValueError, match=f"unfinished run, 2 of {ROUNDS} rounds.*fedrl run --resume --out"):
        fedrl.load(interrupted)
    folder = Path(shutil.copytree(interrupted, tmp_path / "copy"))
    (folder / "experiment.pkl").unlink()
    with pytest.raises(ValueError, match="unfinished run, 2 rounds so far.*call fedrl.train again"):
        fedrl.load(folder)


def test_what_cannot_be_stored_is_said_and_training_goes_on(tmp_path):
    lock, said = threading.Lock(), []

    def method(where):
        assert lock
        return METHOD(where)

    run = fedrl.train(method, federation(3), rounds=1, out=tmp_path / "run", warn=said.append)
    assert len(said) == 1
    assert "cannot be stored (its method: TypeError" in said[0]
    assert run.evaluate().returns.shape == (1, 3)
    loaded = fedrl.load(tmp_path / "run")
    assert loaded.policy()(0) in range(3)
    with pytest.raises(ValueError, match="has no experiment.pkl"):
        loaded.evaluate()


def test_only_what_one_wrote_is_opened(run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert fedrl.load(run.folder).policy()(0) in range(3)
    with pytest.raises(ValueError, match="not written by you on this machine"):
        fedrl.load(run.folder).evaluate()
    fedrl.load(run.folder, trust=True).evaluate()


def test_there_is_nothing_to_draw_in_a_table(run):
    with pytest.raises(ValueError, match="there is nothing to draw in this run"):
        run.play()
    with pytest.raises(ValueError, match=r"ends in .gif or .mp4, got clip.avi"):
        run.play(path="clip.avi")
    with pytest.raises(ValueError, match="there is no client 3; this run has 3, from 0 to 2"):
        run.play(client=3)
