"""A folder belongs to one run and to one process at a time; whatever is refused leaves every byte as it was."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.federations import federation
from support.small_runs import METHOD, WHERE, as_of_an_earlier_version, contents, refused, stepping, train

import fedrl
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.cli import errors
from fedrl.cli.app import app
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import exact_return, sampled_return
from fedrl.experiments import orders
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.records import folder, log
from fedrl.records.folder import claim
from fedrl.records.run_toml import read_config, version_note

OTHER_ENV_PARAMS = fedrl.Federation(WHERE.environment, WHERE.env_params._replace(reward=WHERE.env_params.reward * 2))


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A finished run that nothing below may change."""
    place = tmp_path_factory.mktemp("begun") / "run"
    train(place)
    return place


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"method": stepping(eta=5.0)}, r"method\.learner\.eta is 0\.1 there, 5\.0 here"),
        ({"method": fedsvrpg_m(beta=0.5, eta=0.1, local_steps=1, horizon=4)}, r"method is fedavg there, \w+ here"),
        (
            {"method": stepping(policy=bit_softmax())},
            r"method\.learner\.policy is \S*softmax_table\S* there, \S*bit_softmax\S* here",
        ),
        ({"where": OTHER_ENV_PARAMS}, r"federation\.env_params\.reward is 'float32\[3, 4, 3\] "),
        ({"where": federation(3, gamma=0.9)}, r"federation\.environment\.gamma is 0\.8 there, 0\.9 here"),
        ({"seed": 5, "seeds": 2}, r"\(seed is 0 there, 5 here; seeds is 1 there, 2 here\)"),
        ({"eval_every": 2}, "eval_every is 1 there, 2 here"),
        ({"engine": fused("vmap")}, "engine is 'exact' there, 'vmap' here"),
        ({"evaluation": sampled_return(1, horizon=5)}, r"evaluation is \S*exact_return there, \S*sampled_return here"),
    ],
)
def test_another_run_is_refused_and_what_differs_is_named(begun, options, names):
    message = refused(begun, **options)
    assert "holds a different run (" in message
    assert re.search(names, message), message
    assert message.endswith("continue with the original settings, or give another out")


def test_many_differences_are_counted(begun):
    assert ", and 1 more);" in refused(begun, stepping(eta=5.0, local_steps=2), seed=1, eval_every=2)


@pytest.fixture
def again(begun, tmp_path) -> Path:
    """A copy of it, to go on with."""
    return Path(shutil.copytree(begun, tmp_path / "again"))


def test_the_same_goes_on_whoever_builds_it_and_on_any_exact_engine(again):
    longer = train(again, stepping(), federation(3), rounds=3, engine=one_at_a_time())
    at_once = fedrl.train(METHOD, WHERE, rounds=3, evaluation=exact_return())
    np.testing.assert_array_equal(longer.theta, at_once.theta)
    assert not (again / "seeds.json").exists()


def test_other_versions_warn(again):
    """And what only the other version knows of is no difference, while what both know still is."""
    file, warned = again / "run.toml", []
    text = re.sub(r'(?m)^fedrl = ".*"$', 'fedrl = "0.0.1"', file.read_text())
    file.write_text(text.replace("eta = 0.1\n", "eta = 0.1\nremoved_since = 3\n"))
    before = file.read_bytes()
    train(again, rounds=3, warn=warned.append)
    assert len(warned) == 1
    assert re.search(r"started with other versions \(fedrl is 0\.0\.1 there, \S+ here\)", warned[0])
    assert file.read_bytes() == before
    assert "eta is 0.1 there, 5.0 here" in refused(again, stepping(eta=5.0), rounds=3)


def test_a_folder_of_an_earlier_version_goes_on_with_a_warning(again):
    as_of_an_earlier_version(again)
    warned: list[str] = []
    train(again, rounds=3, warn=warned.append)
    assert len(warned) == 1
    assert "does not record its method and federation" in warned[0]
    assert not (again / "run.toml").exists()
    assert "holds a run of 1 seeds from 0 on, 2 from 5 on were asked for" in refused(again, seed=5, seeds=2)


def test_a_log_that_nobody_accounts_for_is_left_alone(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"round": 0}\n')
    assert "has a log.jsonl but no run.toml" in refused(tmp_path)


def test_recipes_and_scripts_do_not_share_a_folder(begun, tmp_path, capsys):
    claim(tmp_path / "recipe", {"recipe": "quickstart", "seed": 0}, resume=False).close()
    assert "holds a run of the recipe 'quickstart'; give another out" in refused(tmp_path / "recipe")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "run.toml").write_text("seed = 3\n")
    assert "a run.toml that train did not write" in refused(tmp_path / "own")
    before = contents(begun)
    for words in (["run", begun / "run.toml"], ["run", begun]):
        assert "was written by fedrl.train" in sentence(capsys, *words)
    assert "holds a run of fedrl.train, not of a recipe" in sentence(capsys, "run", "quickstart", "--out", begun)
    assert contents(begun) == before


def test_another_recipe_is_named_first(tmp_path, capsys):
    claim(tmp_path / "q", orders.order("quickstart").plain(), resume=False).close()
    message = sentence(capsys, "run", "control/cart-pole", "--resume", "--out", tmp_path / "q")
    assert (
        "q holds a different run (recipe is 'quickstart' there, 'control/cart-pole' here); pass another --out"
        in message
    )


def sentence(capsys, *words) -> str:
    """What the command line says to words that it does not take."""
    code = errors.guard(lambda: app([str(word) for word in words], prog_name="fedrl", standalone_mode=False))
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    return said.err


def test_plot_and_compare_take_what_train_left(begun, tmp_path, capsys):
    for command in ("plot", "compare"):
        words = [command, str(begun), "--out", str(tmp_path / f"{command}.svg")]
        assert errors.guard(lambda words=words: app(words, prog_name="fedrl", standalone_mode=False)) == 0
        assert (tmp_path / f"{command}.svg").exists()


@pytest.mark.parametrize("made", [False, True])
def test_nothing_is_resumed_in_an_empty_folder(tmp_path, monkeypatch, capsys, made):
    monkeypatch.chdir(tmp_path)
    if made:
        Path("a b").mkdir()
    for named in ([], ["quickstart"]):
        message = sentence(capsys, "run", *named, "--resume", "--out", "a b")
        assert "a b has no run.toml, so there is nothing to resume" in message
        assert "fedrl run quickstart --out 'a b'" in message
    assert [str(path) for path in Path(".").rglob("*")] == ["a b"] * made


# One round per block, each as long as a test may want to look; the first line says that the folder is taken.
HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from support import small_runs as it

def callback(row, rounds):
    print("playing", flush=True)
    time.sleep(60)

it.train(sys.argv[1], callback=callback, warn=print)
"""


def test_two_processes_in_one_folder(begun, tmp_path):
    """The second is told by which process; killed, the first leaves a folder that goes on to the same bytes."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run"), str(Path(__file__).parents[1])]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | path) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "playing\n"
            message = refused(tmp_path / "run", rounds=3)
            assert f"is being written by another run (process {holder.pid}); wait for it or stop it" in message
            with pytest.raises(ValueError, match="being written by another run"):
                claim(tmp_path / "run", {"recipe": "quickstart"}, resume=True)
        finally:
            holder.send_signal(signal.SIGKILL)
        holder.wait()
    train(tmp_path / "run")
    policies = [(place / "policy.safetensors").read_bytes() for place in (begun, tmp_path / "run")]
    assert policies[0] == policies[1]
    assert [row["round"] for row in log.read(tmp_path / "run" / "log.jsonl")] == [0, 1, 2]


def test_two_runs_in_one_process(again):
    """Also where the first is still going on, and when it has ended the folder is free."""
    told: list[str] = []

    def callback(row, rounds):
        with pytest.raises(ValueError, match=f"written by another run .process {os.getpid()}") as caught:
            train(again)
        told.append(str(caught.value))

    train(again, rounds=3, callback=callback)
    assert len(told) == 1
    claimed = folder.join(again, read_config(again), pytest.fail)
    claimed.close()


def test_the_command_line_writes_versions_and_notes_others(tmp_path):
    place = tmp_path / "run"
    claim(place, {"recipe": "quickstart", "seed": 0}, resume=False).close()
    text = (place / "run.toml").read_text()
    assert f'[versions]\npython = "{sys.version.split()[0]}"\nfedrl = ' in text
    assert read_config(place) == {"recipe": "quickstart", "seed": 0}
    assert version_note(place) is None
    (place / "run.toml").write_text(re.sub('jax = ".*"', 'jax = "0.1"', text))
    claim(place, {"recipe": "quickstart", "seed": 0}, resume=True).close()
    assert "(jax is 0.1 there, " in str(version_note(place))


ELSEWHERE = """
import os, select, sys, types, warnings
sys.modules["fcntl"] = None
del select.poll
warnings.simplefilter("ignore")  # filelock says that it has but soft locks here; on Windows it has its own
from fedrl.cli import errors
from fedrl.cli.app import app
import fedrl.cli.run, fedrl.engines.local_processes, fedrl.engines.worker, fedrl.environments.subprocess_env
from fedrl.records.folder import claim
for words in (["--help"], ["recipes"]):
    app(words, prog_name="fedrl", standalone_mode=False)
claim(sys.argv[1], {"recipe": "quickstart"}, False).close()
fedrl.engines.local_processes.os = types.SimpleNamespace(**vars(os) | {"name": "nt"})
words = ["run", "quickstart", "--engine", "processes", "--out", "nowhere"]
sys.exit(errors.guard(lambda: app(words, prog_name="fedrl", standalone_mode=False)))
"""


def test_without_what_only_posix_has(tmp_path):
    """As on Windows: the command line starts, a folder can be taken, and an engine that cannot work says so."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "run")]
    said = subprocess.run(command, env=os.environ | path, capture_output=True, text=True, cwd=tmp_path)
    assert "quickstart" in said.stdout
    assert (tmp_path / "run" / "run.toml").exists()
    assert said.returncode == 2, said.stderr
    assert re.fullmatch(
        r"fedrl: processes needs Linux or macOS, this is \w+; use engine=one_at_a_time\(\)\n", said.stderr
    )
    assert not (tmp_path / "nowhere").exists()
