"""Language agents whose tasks stay at their sites: a tiny model, adapters that travel (about 20 s, much of it imports)."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")
pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'fedrl[llm]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedrl[llm]'")

import tomli_w
from flwr.common.serde import message_to_proto
from safetensors.numpy import load_file
from support.desks import LORA, MODULES, TASKS, Both, agreed, own, save_model, simulate
from support.organisations import Folders, LocalGrid

from fedrl import llm
from fedrl.errors import FedRLError
from fedrl.llm.adapter_files import read_adapter
from fedrl.organisations import agreement as agreements
from fedrl.organisations import (
    check_server,
    first_steps,
    language,
    language_tasks,
    model_files,
    parts,
    server_app,
    site_work,
    trips,
)
from fedrl.organisations import site as sites
from fedrl.organisations.status_file import StatusFile
from fedrl.organisations.tables import FileError
from fedrl.records import log


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(trips, "LOOK", 0.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A tiny Llama, as save_pretrained leaves it."""
    return save_model(tmp_path_factory.mktemp("model"))


class Listening(LocalGrid):
    """Keeps the bytes of all messages, there and back."""

    def __init__(self, folders, workers):
        super().__init__(folders, workers)
        self.heard = []

    def answered(self, site, message):
        answer = super().answered(site, message)
        self.heard += [message_to_proto(message).SerializeToString(), message_to_proto(answer).SerializeToString()]
        return answer


class Played:
    def __init__(self, home: Path, model: Path, seed: int | None = 5):
        self.made = Folders(home, agreed(model), {name: own(name, model) for name in TASKS}, seed)
        for name, home_of_site in self.made.homes.items():
            (home_of_site / f"desk_{name}.py").write_text(MODULES[name])
        self.made.server.model.mkdir()
        (self.made.server.model / "config.json").write_bytes((model / "config.json").read_bytes())
        self.workers = {name: self.made.worker(name) for name in self.made.homes}
        for worker in self.workers.values():
            worker.work.try_environments()
        self.grid = Listening(self.made, self.workers)
        server_app.play(self.made.server, self.made.agreement, self.grid, 7, StatusFile(self.made.server.status))


@pytest.fixture(scope="module")
def played(tmp_path_factory, model) -> Played:
    return Played(tmp_path_factory.mktemp("desks"), model)


def test_bytes_of_one_at_a_time(played, model, tmp_path):
    import desk_a
    import desk_b

    simulate(played.made.agreement, model, lambda: Both([desk_a.Desk(), desk_b.Desk()]), tmp_path)
    there, here = load_file(played.made.server.run / "policy.safetensors"), load_file(tmp_path / "policy.safetensors")
    assert {name: x.tobytes() for name, x in there.items()} == {name: x.tobytes() for name, x in here.items()}
    assert all("lora" in name for name in there)
    assert any(x.any() for name, x in there.items() if "lora_B" in name)  # which are zero at first
    rows, simulated = (
        [{**row, "seconds": 0} for row in log.read(x / "log.jsonl")] for x in (played.made.server.run, tmp_path)
    )
    assert json.dumps(rows) == json.dumps(simulated)
    assert [row["round"] for row in rows if "return" in row] == [0, 1, 2]
    assert rows[-1]["env_steps"] > 0


def test_neither_tasks_nor_texts_travel(played):
    words = [word.encode() for word in ("find", "take", "nothing", "ball", "Desk", "desk_a")]
    numbers = [np.int32(task).tobytes() for task in (7001, 7002, 7003, 9001, 9002, 9004, 9005)]
    assert played.grid.heard
    for message in played.grid.heard:
        assert not [secret for secret in words + numbers if secret in message]


def test_the_site_has_the_adapter(played, model):
    """As fedrl's file, and as a folder that peft reads."""
    there = load_file(played.made.server.run / "policy.safetensors")
    for home in played.made.homes.values():
        own = load_file(home / "policy.safetensors")
        assert {name: x.tobytes() for name, x in own.items()} == {name: x.tobytes() for name, x in there.items()}
    shapes = {name.removeprefix("theta/"): x.shape[1:] for name, x in there.items()}
    adapter = read_adapter(played.made.homes["a"] / "adapter", llm.Lora(**LORA), shapes)
    for name, value in adapter.items():
        np.testing.assert_array_equal(value, there[f"theta/{name}"][0])


def test_sites_that_share_no_secret_draw_differently(played, model, tmp_path):
    other = Played(tmp_path, model, None)
    ends = [load_file(x.made.server.run / "policy.safetensors") for x in (played, other)]
    assert any((ends[0][name] != ends[1][name]).any() for name in ends[0])


def parsed(model: Path, /, **changes):
    return agreements.parse(tomli_w.dumps(agreed(model, **changes)))


GRPO_WITH = {"name": "grpo"}
WRONG = {
    "model key": ({"model": {"ranks": 2}}, r"\[model\].*'ranks'; did you mean rank\?"),
    "layers": ({"model": {"layers": 9}}, r"\[model\]: lora.layers must be from 1 to 2"),
    "dtype": ({"model": {"dtype": "int8"}}, r"\[model\]: dtype is one of auto, float32, bfloat16, got 'int8'"),
    "mean": ({"model": {"mean": "median"}}, r'mean must be "factors", or with a rank and no freeze_a "products"'),
    "no files": (
        {"model": {"files": {}}},
        r"no \[model.files\]; `fedrl federation check` at a site that has the whole model prints the table to paste",
    ),
    "tasks key": ({"tasks": {"windows": 2}}, r"\[tasks\]: .*windows"),
    "temperature": ({"tasks": {"evaluation_temperature": -1}}, r"\[tasks\]: evaluation_temperature must be at least 0"),
    "learner": ({"learner": {"name": "ppo"}}, r'language agents learn by GRPO; write name = "grpo"'),
    "learner key": ({"learner": GRPO_WITH | {"groups": 2}}, r"\[learner\]: .*groups"),
    "group": ({"learner": GRPO_WITH | {"group": 1}}, r"\[learner\]: grpo needs at least .* 2 episodes"),
    "settings": (
        {"learner": GRPO_WITH | {"settings": {"reward": "gold"}}},
        r'\[learner.settings\]: reward is "success"',
    ),
    "policy": ({"policy": {"name": "mlp"}}, r"language agents act by their model, on texts: remove \[policy\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tables_are_sentences(case, model):
    changes, sentence = WRONG[case]
    if "model" in changes:
        changes = {"model": LORA | {"files": model_files.digests(model)} | changes["model"]}
    with pytest.raises(FileError, match=sentence):
        parts.of(parsed(model, **changes), model=model)


def test_the_files_of_the_model_are_proposed_where_the_whole_model_is(model, tmp_path):
    """As they can be pasted. A server has config.json alone, of which a proposal would make every site's model wrong."""
    table = agreed(model, sites={"a": 1}, rules={})
    del table["model"]["files"]
    made = Folders(
        tmp_path, table, {"a": {"kind": "text", "environment": "desk:Desk", "model": str(model)} | TASKS["a"]}
    )
    (tmp_path / "server/model").mkdir()
    (tmp_path / "server/model/config.json").write_bytes((model / "config.json").read_bytes())
    at_site = next(first_steps.look(sites.read(made.homes["a"]), made.agreement))
    at_server = next(item for item in check_server.items(made.server) if item.item == "method")
    assert at_site.found == at_server.found == "federation.toml has no [model.files]"
    assert at_server.do.startswith(f"{tmp_path}/server/model has no weights (*.safetensors), which sites need")
    assert "\n" not in at_server.do
    words, _, lines = at_site.do.partition("\n")
    assert words == f"if all have the model in {model}, the operator adds this and hands the file out:"
    pasted = agreements.parse(made.agreement.text + lines)
    parts.of(pasted, model=model)
    parts.of(pasted, model=tmp_path / "server/model")


def test_tasks_without_a_model(model):
    del (table := agreed(model))["model"]
    with pytest.raises(FileError, match=r"\[tasks\], which are for language agents; add their \[model\]"):
        parts.of(agreements.parse(tomli_w.dumps(table)))


SILENT = """
from support.tiny_agents import Colours


class Silent(Colours):
    def info(self):
        return {}


class Short(Colours):
    def reset(self, *, seed=None, options=None):
        [0] [options["task"]]
"""


def begin(site: sites.Site, agreement: agreements.Agreement) -> None:
    """What a worker does first."""
    federation = site_work.own_federation(site, agreement)
    language.agents(agreement, site.model, 1)
    language_tasks.try_tasks(site, agreement, federation.environment.make)


def site_of(home: Path, model: Path, /, **changes):
    own = {"site": "a", "server": "127.0.0.1:1", "kind": "text", "environment": "support.tiny_agents:Colours"}
    own |= {"model": str(model), "threads": 1} | TASKS["a"] | changes
    (home / "site.toml").write_text(tomli_w.dumps(own))
    (home / "silent_desk.py").write_text(SILENT)
    return sites.read(home)


WRONG_SITES = {
    "no model": ({"model": ""}, r'names no model; write model = "FOLDER"'),
    "no folder": ({"model": "nowhere"}, r"there is no folder .*nowhere, where the language model should be"),
    "kind": ({"kind": "gymnasium"}, r'write kind = "text"'),
    "environment": (
        {"environment": "webshops"},
        r"there is no text environment 'webshops'; write webshop, household or",
    ),
    "module": ({"environment": "nowhere.desk:Desk"}, r"there is no module 'nowhere'"),
    "world": ({"world": {"products": 3}}, r"has \[world\], which is for webshop and household"),
    "world key": ({"environment": "webshop", "world": {"product": 3}}, r"\[world\]: .*product"),
    "clients": ({"tasks": [[1], [2]]}, r"tasks has 2 lists, and the site 1 clients"),
    "plain list": ({"tasks": [1]}, r"tasks of client 0 expects a list of task numbers from 0 on"),
    "negative": ({"tasks": [[-1]]}, r"tasks of client 0 expects a list of task numbers from 0 on"),
    "twice": ({"tasks": [[5, 5]]}, r"tasks of client 0 names a task twice"),
    "too few": ({"held_out": [7]}, r"held_out has 1 tasks, expected 2: .* every client on 2 \(episodes\)"),
    "seen": ({"held_out": [7001, 7003]}, r"task 7001 is in held_out and in tasks"),
    "not an environment": (
        {"environment": "support.tiny_agents:tokenizer"},
        r"made a TokenizersBackend, expected a",
    ),
    "no info": ({"environment": "silent_desk:Silent"}, r"client 0: the info of reset has no admissible_commands"),
    "missing task": ({"environment": "silent_desk:Short"}, r"client 0: reset raised IndexError"),
}


@pytest.mark.parametrize("case", WRONG_SITES)
def test_wrong_sites_are_sentences(case, model, tmp_path):
    changes, sentence = WRONG_SITES[case]
    site, agreement = site_of(tmp_path, model, **changes), parsed(model)
    with pytest.raises(FedRLError, match=sentence):
        begin(site, agreement)


def test_another_model_is_a_sentence_at_the_site(model, tmp_path):
    agreement = parsed(model, model=LORA | {"files": model_files.digests(model) | {"model.safetensors": "0" * 64}})
    sentence = r"model.safetensors is another than agreed \(its SHA-256 begins with [0-9a-f]{12}, .* with 0{12}\)"
    with pytest.raises(FileError, match=sentence):
        language.agents(agreement, site_of(tmp_path, model).model, 1)
    assert parts.of(parsed(model), model=model).federation.count == 3


def test_files_more_or_less_are_sentences(model, tmp_path):
    own = tmp_path / "model"
    own.mkdir()
    agreement = parsed(model)
    with pytest.raises(FileError, match=r"has no config.json, so it holds no language model"):
        language.agents(agreement, own, 1)
    (own / "config.json").write_bytes((model / "config.json").read_bytes())
    language.agents(agreement, own, 1)  # enough for the server
    with pytest.raises(FileError, match=r"has no chat_template.jinja, which federation.toml \[model.files\] names"):
        model_files.check(own, agreement.tables["model"]["files"])
    (own / "chat_template.json").write_text("{}")
    with pytest.raises(FileError, match=r"has chat_template.json, which federation.toml \[model.files\] does not name"):
        language.agents(agreement, own, 1)


def test_a_site_for_agents_in_another_federation(model, tmp_path):
    table = agreed(model)
    del table["model"], table["tasks"]
    with pytest.raises(FileError, match=r"is for language agents, and federation.toml has no \[model\]"):
        site_work.own_federation(site_of(tmp_path, model), agreements.parse(tomli_w.dumps(table)))


def test_a_shop(model, tmp_path):
    """A built-in world, with settings of the site's own."""
    world = {"products": 8, "step_limit": 3}
    site = site_of(tmp_path, model, environment="webshop", world=world, tasks=[[0, 1]], held_out=[2, 3])
    agreement = parsed(model)
    environment = site_work.own_federation(site, agreement).environment
    language_tasks.try_tasks(site, agreement, environment.make)
    with environment.make() as env:
        assert "admissible_commands" in env.reset(options={"task": 1})[1]
