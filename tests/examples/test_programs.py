"""The programs of examples/ do what their first lines say, at small size (`test_fednpg.py` has the method of one's own)."""

import runpy
from pathlib import Path

import pytest
from support.doc_runs import promotion_allowed

from fedrl.engines import local_processes

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    with promotion_allowed():
        yield


def test_all_are_run():
    here = Path(__file__).read_text()
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"fednpg"} | {
        path.stem for path in EXAMPLES.glob("*.py") if f'example("{path.stem}")' in here
    }


def test_programs_are_short():
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= (50 if path.stem == "fednpg" else 40), path.name


def test_federating_pays_less_with_more_data():
    little, much = example("does_federating_pay")(rounds=20, batches=(1, 16), seeds=2)
    assert little > much > 0


def test_the_median_withstands_liars():
    end = example("lying_clients")(rounds=30)
    assert end["mean, all honest"] > end["median, two liars"] > 2 * end["mean, two liars"]


def test_server_optimisers_are_drawn(tmp_path):
    assert Path(example("server_optimisers")(rounds=2)).stat().st_size > 1000


def test_the_best_common_policy_flips_a_coin():
    levels = example("common_policies")(rounds=100)
    deterministic, stochastic, own, learnt = levels.values()
    assert deterministic < learnt <= stochastic < own


def test_pendulums_learn_in_workers(capsys):
    run = example("pendulums")(rounds=1, clients=4, steps=40, out="run")
    local_processes.stop()
    assert run.returns.shape == (1, 4)
    assert (Path("run") / "policy.safetensors").exists()
    assert "torque at rest" in capsys.readouterr().out
