"""The command line as a user meets it: real processes, real folders."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from fedrl.cli import engines, errors
from fedrl.cli.request import resume_command
from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import RecipeError
from fedrl.experiments.settings import configure

TINY = ("--set", "rounds=40", "--seeds", "2")  # --seeds 2 everywhere: one set of compiled programs serves all tests


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """One compilation cache for all processes, because compiling is most of what they do."""
    return os.environ | {"XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache")}


@pytest.fixture(scope="session")
def fedrl(environment):
    def call(*arguments: object, cwd: Path) -> Answer:
        command = [sys.executable, "-m", "fedrl.cli", *map(str, arguments)]
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="module")
def home(fedrl, tmp_path_factory) -> Path:
    """A folder with one finished run in runs/quickstart; what it printed is in answer.json beside it."""
    home = tmp_path_factory.mktemp("home")
    answer = fedrl("run", *TINY, "--json", cwd=home)
    assert answer.code == 0, answer.err
    (home / "answer.json").write_text(answer.out)
    return home


def contents(folder: Path) -> dict:
    """All names and bytes."""
    files = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in files}


def policies(run: Path) -> dict[str, bytes]:
    found = {p.parent.name: p.read_bytes() for p in run.glob("arms/*/policy.safetensors")}
    assert found
    return found


def refused(fedrl, cwd: Path, *arguments: object) -> str:
    """The one sentence, after checking that it is one, that the code is 2 and that no byte changed."""
    before = contents(cwd)
    answer = fedrl(*arguments, cwd=cwd)
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.startswith("fedrl: ")
    assert answer.err.endswith("\n")
    assert answer.err.count("\n") == 1, answer.err
    assert contents(cwd) == before
    return answer.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "quikstart"], "there is no recipe 'quikstart'; did you mean quickstart?"),
        (["run", "--set", "round=3"], "quickstart has no setting 'round'; did you mean rounds?"),
        (["run", "--set", "rounds=many"], "setting rounds expects a whole number (now"),
        (["run", "--set", "rounds"], "--set expects key=value, got 'rounds'; try --set rounds=100"),
        (["run", "--set", "gamma=1.5"], "gamma must lie strictly between 0 and 1, got 1.5"),
        (["run", "--seeds", "0"], "`fedrl run --help` shows what it takes"),
        (["run", "--seed", "5000000000"], "seed expects a whole number from 0 to"),
        (["run", "--sed", "1"], "no such option"),
        (["run", "missing.toml"], "cannot read missing.toml (No such file or directory)"),
        (["run", "--resume", *TINY], "no unfinished run of quickstart with these settings under runs/; pass --out"),
        (["verify", "missing"], "cannot read missing"),
        (["plot", "missing"], "missing is not the folder of a run"),
        (["compare"], "missing argument"),
    ],
)
def test_bad_input_is_one_sentence(fedrl, tmp_path, arguments, expected):
    assert expected in refused(fedrl, tmp_path, *arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('recipe = "quickstart"\nsede = 3\n', "has a key 'sede'; a run.toml has recipe, seed, seeds and [config]"),
        ('recipe = "quickstart"\n[config]\nround = 3\n', "has no setting 'round'; did you mean rounds?"),
        ('recipe = "quickstart"\nseed = "three"\n', "seed in mine.toml expects a whole number, got 'three'"),
        ("recipe = \n", "mine.toml is not valid TOML"),
    ],
)
def test_a_bad_file_is_one_sentence(fedrl, tmp_path, text, expected):
    (tmp_path / "mine.toml").write_text(text)
    assert expected in refused(fedrl, tmp_path, "run", "mine.toml")


def test_numbers_that_no_run_can_have_are_refused():
    quickstart = find.recipe("quickstart")
    with pytest.raises(RecipeError, match=r"expects a whole number .* got 'inf'; try --set rounds="):
        configure(quickstart, paper=False, overrides={"rounds": "inf"})
    with pytest.raises(RecipeError, match="needs at least 1 round, got 0"):
        experiment.check(orders.order("quickstart", overrides={"rounds": 0}))


def test_a_folder_that_is_not_free_is_left_alone(fedrl, home):
    (home / "thesis").mkdir()
    (home / "thesis" / "thesis.tex").write_text("years of work")
    message = refused(fedrl, home, "run", *TINY, "--out", "answer.json/under-a-file")
    assert "cannot write a run to answer.json/under-a-file (Not a directory); pass an --out folder" in message
    assert "holds other files (thesis.tex)" in refused(fedrl, home, "run", *TINY, "--out", "thesis")
    assert "holds this run, finished; pass --resume" in refused(fedrl, home, "run", *TINY, "--out", "runs/quickstart")
    message = refused(fedrl, home, "run", *TINY, "--seed", 9, "--out", "runs/quickstart", "--resume")
    assert "holds a different run (seed is 0 there, 9 here); pass another --out" in message
    assert "ends in .png, .svg, .pdf, got answer.json" in refused(
        fedrl, home, "plot", "runs/quickstart", "--out", "answer.json"
    )


def test_help_and_recipes(fedrl, tmp_path):
    assert "fedrl run --resume --out" in fedrl("run", "--help", cwd=tmp_path).out
    listed = json.loads(fedrl("recipes", "--json", cwd=tmp_path).out)
    assert [row["name"] for row in listed] == find.names()
    assert set(listed[0]) == {"name", "paper", "shows", "minutes"}
    table = fedrl("recipes", cwd=tmp_path).out
    assert all(name in table for name in find.names())


def test_a_closed_stdout_is_no_error(environment):
    command = ["sh", "-c", f"{shlex.quote(sys.executable)} -m fedrl.cli recipes >&-"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_a_compiled_module_is_imported_is_no_traceback(capsys):
    def importing():
        raise ImportError("Encountered an error while initializing the extension.") from KeyboardInterrupt()

    assert errors.guard(importing) == errors.STOPPED
    assert capsys.readouterr().err == ""


def test_a_file_that_the_users_code_misses_keeps_its_traceback(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        (tmp_path / "no" / "data.csv").read_text()
    assert errors.explain(missing.value) is None


def test_run_verify_plot_compare(fedrl, home):
    said = json.loads((home / "answer.json").read_text())
    assert (said["run"], said["recipe"], said["seeds"]) == ("runs/quickstart", "quickstart", 2)
    assert all(arm["rounds"] == 40 and arm["se"] >= 0 for arm in said["arms"].values())
    assert all((home / figure).stat().st_size > 10_000 for figure in said["figures"])

    run = home / "runs" / "quickstart"
    (run / "verdict.json").unlink()
    verdict = json.loads(fedrl("verify", run, "--json", cwd=home).out)
    assert verdict["claims"] == said["claims"] == json.loads((run / "verdict.json").read_text())

    (home / said["figures"][0]).unlink()
    assert fedrl("plot", run, cwd=home).code == 0
    assert (home / said["figures"][0]).exists()
    assert fedrl("plot", run, run / "arms" / next(iter(policies(run))), "--out", "both.svg", cwd=home).code == 0
    assert (home / "both.svg").read_text().startswith("<?xml")

    compared = json.loads(fedrl("compare", run, "--json", "--out", "bars.png", cwd=home).out)
    assert {row["arm"]: pytest.approx(row["mean"]) for row in compared["arms"]} == {
        arm: it["return"] for arm, it in said["arms"].items()
    }
    assert all(row["low"] <= row["mean"] <= row["high"] for row in compared["arms"])
    one, other = sorted(policies(run))[:2]
    assert fedrl("compare", run / "arms" / one, run / "arms" / other, cwd=home).code == 0
    assert (run / "figures" / f"{one}+{other}-final.png").exists()
    assert not (run / "arms" / "figures").exists()  # it would look like an arm
    assert "cannot use /proc/nowhere" in refused(fedrl, home, "plot", run, "--out", "/proc/nowhere/curve.png")
    table = fedrl("compare", run, cwd=home).out
    assert all(arm in table for arm in said["arms"])
    assert "Student's t over seeds" in table


def test_a_run_repeated_from_its_file_ends_with_the_same_bytes(fedrl, home):
    answer = fedrl("run", "runs/quickstart/run.toml", cwd=home)
    assert answer.code == 0, answer.err
    assert "runs/quickstart-2" in answer.out  # the next free name
    assert "final return" in answer.out
    claims = json.loads((home / "runs" / "quickstart" / "verdict.json").read_text())
    assert answer.out.count("undecided: ") + answer.out.count("holds: ") + answer.out.count("hold: ") == len(claims)
    assert policies(home / "runs" / "quickstart-2") == policies(home / "runs" / "quickstart")
    assert "note: " not in answer.out


def test_a_finished_run_begun_with_another_version_is_looked_at_again_with_a_note(fedrl, home):
    """Nothing is trained; run.toml stays as it is."""
    run = Path(shutil.copytree(home / "runs" / "quickstart", home / "older"))
    text = (run / "run.toml").read_text()
    (run / "run.toml").write_text(re.sub('(?m)^fedrl = ".*"$', 'fedrl = "0.0.1"', text))
    before = (run / "run.toml").read_bytes()
    answer = fedrl("run", "--resume", "--out", "older", cwd=home)
    assert answer.code == 0, answer.err
    said = " ".join(answer.out.split())
    assert "note: older/run.toml was started with other versions (fedrl is 0.0.1 there, " in said
    assert (run / "run.toml").read_bytes() == before


def test_the_command_that_goes_on_elsewhere_names_the_run(tmp_path):
    """A run whose files are not here, as with a SuperLink elsewhere; said again, the words order the same."""
    order = orders.order("wang2024/table2", overrides={"betas": "0.1,1", "rounds": 7}, seed=3, seeds=2)
    command = resume_command(tmp_path / "there", engines.Choice("flower", "far"), order)
    words = "wang2024/table2 --set betas=0.1,1.0 --set rounds=7 --seed 3 --seeds 2"
    assert command == f"fedrl run {words} --resume --out {tmp_path / 'there'} --engine flower --address far"
    assert orders.order("wang2024/table2", overrides={"betas": "0.1,1.0", "rounds": "7"}, seed=3, seeds=2) == order
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "run.toml").touch()
    assert words not in resume_command(tmp_path / "there", engines.Choice(), order)


def test_stopped_by_ctrl_c_and_resumed_it_ends_with_the_same_bytes(fedrl, environment, home, tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, as it is in a job started with &
    command = [sys.executable, "-m", "fedrl.cli", "run", *TINY]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        while "round 1/40" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    signal.signal(signal.SIGINT, before)
    assert process.returncode == 130, err
    assert err == "Stopped; nothing is lost. Continue with: fedrl run --resume --out runs/quickstart\n"
    run = tmp_path / "runs" / "quickstart"
    assert not (run / "finished.json").exists()
    message = refused(fedrl, tmp_path, "run", *TINY, "--out", "runs/quickstart")
    assert "holds this run, unfinished; pass --resume" in message
    assert "has no finished arm" in refused(fedrl, tmp_path, "verify", "runs/quickstart")

    again = fedrl(*shlex.split(err.split(": ")[1])[1:], cwd=tmp_path)
    assert again.code == 0, again.err
    assert policies(run) == policies(home / "runs" / "quickstart")
