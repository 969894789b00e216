"""Every way in which a run folder is not to be had, and that none of them changes a byte."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedrl.records.folder import RunFolder, claim, find_resumable, free_name
from fedrl.records.run_toml import RunFolderError, read_config

CONFIG = {
    "recipe": "wang2024",
    "seed": 0,
    "paper": False,
    "config": {"beta": 0.1, "kappas": [0.0, 1.5], "name": 'a "b"\nü', "clip": float("inf"), "odd": float("nan")},
}


def other(**changes) -> dict:
    return CONFIG | {"config": CONFIG["config"] | changes}


def contents(folder: Path) -> dict:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def refused(tmp_path: Path, path: Path, config: dict, resume: bool) -> str:
    """The message of the error, after checking that it is one line and that nothing changed."""
    before = contents(tmp_path)
    with pytest.raises(RunFolderError) as caught:
        claim(path, config, resume)
    assert contents(tmp_path) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_new_folder_says_which_run_it_is(tmp_path):
    with claim(tmp_path / "runs" / "a", CONFIG, resume=False) as folder:
        assert not folder.finished
        assert repr(folder.config) == repr(CONFIG)  # repr, because NaN differs from itself
        assert folder.log == tmp_path / "runs" / "a" / "log.jsonl"
    assert repr(read_config(tmp_path / "runs" / "a" / "run.toml")) == repr(CONFIG)


def test_an_empty_folder_will_do_and_resume_starts_when_there_is_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".run.toml.1.ab12.tmp").write_text("seed")  # left by a crash before the first file
    claim(tmp_path / "a", CONFIG, resume=True).close()
    assert (tmp_path / "a" / "run.toml").exists()


def test_the_same_run_goes_on_only_if_asked_to(tmp_path):
    claim(tmp_path / "a", CONFIG, resume=False).close()
    message = refused(tmp_path, tmp_path / "a", CONFIG, resume=False)
    assert message.endswith("a holds this run, unfinished; pass --resume to continue, or another --out")
    before = (tmp_path / "a" / "run.toml").read_bytes()
    with claim(tmp_path / "a", CONFIG | {"config": CONFIG["config"] | {"kappas": (0, 1.5)}}, resume=True) as folder:
        assert not folder.finished
    assert (tmp_path / "a" / "run.toml").read_bytes() == before


def test_a_finished_run_is_looked_at_only_if_asked_to(tmp_path):
    with claim(tmp_path / "a", CONFIG, resume=False) as folder:
        folder.mark_finished()
        assert folder.finished
    message = refused(tmp_path, tmp_path / "a", CONFIG, resume=False)
    assert message.endswith("a holds this run, finished; pass --resume to look at it again, or another --out")
    with claim(tmp_path / "a", CONFIG, resume=True) as folder:
        assert folder.finished


@pytest.mark.parametrize(
    ("config", "difference"),
    [
        (other(beta=0.2), "config.beta is 0.1 there, 0.2 here"),
        (other(beta=0.2, aaa=1), "config.aaa is not set there, 1 here"),
        (other(kappas=[0.0]), "config.kappas is [0.0, 1.5] there, [0.0] here"),
        (other(odd=0.0), "config.odd is nan there, 0.0 here"),
        (CONFIG | {"paper": 0}, "paper is False there, 0 here"),
        ({k: v for k, v in CONFIG.items() if k != "seed"}, "seed is 0 there, not set here"),
        (CONFIG | {"seed": 3, "recipe": "labbi2025"}, "recipe is 'wang2024' there, 'labbi2025' here"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_a_different_run_is_refused_with_the_first_difference(tmp_path, config, difference, resume):
    claim(tmp_path / "a", CONFIG, resume=False).close()
    message = refused(tmp_path, tmp_path / "a", config, resume)
    assert message.endswith(f"a holds a different run ({difference}); pass another --out")


@pytest.mark.parametrize("resume", [False, True])
def test_other_peoples_files_are_left_alone(tmp_path, resume):
    (tmp_path / "thesis.tex").write_text("years of work")
    message = refused(tmp_path, tmp_path, CONFIG, resume)
    assert message.endswith("holds other files (thesis.tex) but no run.toml; pass an empty or new --out")


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "a").write_text("a file")
    assert refused(tmp_path, tmp_path / "a", CONFIG, False).endswith(
        "is a file, and a run needs a folder; pass another --out"
    )
    message = refused(tmp_path, tmp_path / "a" / "b", CONFIG, False)
    assert "cannot write a run to" in message
    assert message.endswith("(Not a directory); pass an --out folder that you may write to")


def test_a_place_that_cannot_be_written(tmp_path):
    if os.getuid() == 0:  # whom no permission stops: the system's own folder does
        assert "cannot write a run to /proc/fedrl" in refused(tmp_path, Path("/proc/fedrl"), CONFIG, False)
        return
    tmp_path.chmod(0o500)
    assert "(Permission denied)" in refused(tmp_path, tmp_path / "a", CONFIG, False)
    assert "(Permission denied)" in refused(tmp_path, tmp_path, CONFIG, False)


def test_a_config_toml_cannot_hold_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(TypeError, match="config must hold text, numbers"):
        claim(tmp_path / "a", {"seed": None}, resume=False)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("text", "place"), [(b"seed = \n", "at line 1"), (b"a = 1\na = 2\n", "at line 2"), (b"\xff", "byte 0xff")]
)
def test_malformed_toml_is_named_with_the_place(tmp_path, text, place):
    (tmp_path / "run.toml").write_bytes(text)
    with pytest.raises(RunFolderError, match=rf"run.toml is not valid TOML \(.*{place}"):
        read_config(tmp_path / "run.toml")
    assert "is not valid TOML" in refused(tmp_path, tmp_path, CONFIG, True)
    with pytest.raises(RunFolderError, match=r"cannot read .*No such file.*pass a run.toml or a run folder"):
        read_config(tmp_path / "missing.toml")
    with pytest.raises(RunFolderError, match="tank.py is a Python file; pass the folder of a run, such as runs/tank"):
        read_config("tank.py")


def test_free_name_counts_up(tmp_path):
    assert free_name(tmp_path / "runs", "x") == tmp_path / "runs" / "x"
    (tmp_path / "x").mkdir()
    assert free_name(tmp_path, "x") == tmp_path / "x-2"
    (tmp_path / "x-2").write_text("a file takes the name too")
    (tmp_path / "x-3").symlink_to("nowhere")
    assert free_name(tmp_path, "x") == tmp_path / "x-4"


def test_find_resumable_wants_the_newest_unfinished_one_of_this_config(tmp_path):
    assert find_resumable(tmp_path / "missing", CONFIG) is None
    made = {"old": CONFIG, "new": CONFIG, "done": CONFIG, "different": other(beta=0.2)}
    for age, (name, config) in enumerate(made.items()):
        with claim(tmp_path / name, config, resume=False) as folder:
            if name == "done":
                folder.mark_finished()
        os.utime(tmp_path / name / "run.toml", (1000 + age, 1000 + age))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.toml").write_text("seed =")
    assert find_resumable(tmp_path, CONFIG) == tmp_path / "new"
    os.utime(tmp_path / "old" / "run.toml", (5000, 5000))
    assert find_resumable(tmp_path, CONFIG) == tmp_path / "old"
    assert find_resumable(tmp_path, CONFIG | {"seed": 9}) is None


def test_two_runs_in_one_process_do_not_share_a_folder(tmp_path):
    folder = claim(tmp_path / "a", CONFIG, resume=False)
    for resume in (False, True):
        message = refused(tmp_path, tmp_path / "a", CONFIG, resume)
        assert message.endswith(
            f"is being written by another run (process {os.getpid()}); wait for it or stop it, or pass another --out"
        )
    assert RunFolder(tmp_path / "a").finished is False  # looking is always allowed
    del folder
    gc.collect()
    claim(tmp_path / "a", CONFIG, resume=True).close()


def test_a_lock_dies_with_its_process(tmp_path):
    script = (
        "import sys, time; from fedrl.records.folder import claim;"
        "folder = claim(sys.argv[1], {'seed': 0}, False); print('ready', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        assert f"(process {holder.pid})" in refused(tmp_path, tmp_path / "a", {"seed": 0}, True)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        claim(tmp_path / "a", {"seed": 0}, resume=True).close()
