"""Adapters of language agents over a real SuperLink: the bytes of `one_at_a_time` (115 s of CPU, most of it imports)."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")
pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'fedrl[llm]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedrl[llm]'")

from safetensors.numpy import load_file
from support.superlink import same_rows, superlink
from support.tiny_agents import saved_shopper

from fedrl.cli import flower
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.experiments import experiment, orders, outcomes
from fedrl.recipes.fedagent import quickstart
from fedrl.records import folder

SHOP = {"products": 8, "demonstrations": 4, "evaluate": 2}


def small(model: Path) -> orders.Order:
    """Two clients, both in the only round."""
    few = {"clients": 2, "tasks_each": 5, "per_round": 2, "local_epochs": 1, "rounds": 1, "eval_every": 1}
    step = {"tasks": 2, "group": 2, "learning_rate": 1e-2, "model": str(model), "warm": 0, "layers": 0}
    return orders.order("fedagent/quickstart", overrides=SHOP | few | step, seed=3, seeds=1)


def test_language_agents_over_a_superlink(tmp_path):
    """Two organisations, one client each, go on with a run in which the arm of a client alone has been done here."""
    order = small(saved_shopper(tmp_path / "model", **SHOP))
    here, there = tmp_path / "here", tmp_path / "flower"
    with folder.claim(here, order.plain(), resume=False) as place:
        experiment.run(order, place, engine=one_at_a_time(), warn=print)
    alone, together = (outcomes.arm_folder(there, arm) for arm in (quickstart.ALONE, quickstart.FEDERATED))
    shutil.copytree(here / alone.relative_to(there), alone)
    shutil.copy(here / "run.toml", there)
    with superlink(tmp_path) as federated:
        federated.node("first", "0")
        federated.node("second", "1")
        assert flower.play(order, there, federated.address, resume=True)
    rows = same_rows(together, here / together.relative_to(there))
    theta = load_file(together / "policy.safetensors")
    assert all("lora" in name for name in theta)
    assert any(value.any() for name, value in theta.items() if "lora_B" in name)  # which are zero at first
    assert rows[-1]["bytes_up"] == 2 * sum(value.nbytes for value in theta.values())
    assert 0 < rows[-1]["train/factors_off"] < 1
    assert [row["round"] for row in rows if "return" in row] == [0, 1]
