"""Two sites of language agents with a tiny model, whose tasks and environments stay where they are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.spaces import Text
from support.tiny_agents import CHAT, net, tokenizer

import fedrl
from fedrl import llm
from fedrl.algorithms import fedavg
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.organisations import language, model_files, server_app
from fedrl.organisations.agreement import Agreement

DESK = '''
"""A site's own environment: none but this site can import it."""

from support.tiny_agents import Colours


class Desk(Colours):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        return f"{observation} SAYS", info
'''
LORA = {"rank": 2, "alpha": 4, "layers": 1}
STEP = {"tasks": 2, "group": 2, "learning_rate": 0.05, "local_steps": 2}
GRPO = {"reward": "score", "minibatch": 4}
ACTING = {"longest": 200}
TASKS = {"a": {"tasks": [[7001, 7002]], "held_out": [7003, 7004]},
         "b": {"tasks": [[9001], [9002, 9003, 9004]], "held_out": [9005, 9006, 9007, 9008]}}  # fmt: skip
AGREED = {
    "name": "desks",
    "rounds": 2,
    "seed": 5,
    "episodes": 2,
    "sites": {"a": 1, "b": 2},
    "rules": {"quorum": 3, "deadline": 60.0, "patience": 0.0},
    "method": {"name": "fedavg"},
    "learner": {"name": "grpo", **STEP, "settings": GRPO},
    "tasks": {**ACTING, "evaluation_temperature": 0.5},
}
MODULES = {name: DESK.replace("SAYS", word) for name, word in (("a", "see"), ("b", "wait"))}


def save_model(folder: Path) -> Path:
    """A tiny Llama, as save_pretrained leaves it."""
    words = tokenizer()
    words.chat_template, words.eos_token = CHAT, "<end>"
    words.save_pretrained(folder)
    net().save_pretrained(folder)
    return folder


def agreed(model: Path, /, **changes) -> dict:
    return AGREED | {"model": LORA | {"files": model_files.digests(model)}} | changes


def own(name: str, model: Path) -> dict[str, Any]:
    """What a site says in its site.toml."""
    return {"kind": "text", "environment": f"desk_{name}:Desk", "model": str(model), "threads": 1, **TASKS[name]}


class Both(gymnasium.Env):
    """Both sites' environments in one, by the number of the task."""

    observation_space = action_space = Text(200)

    def __init__(self, desks):
        self.desks = desks

    def reset(self, *, seed=None, options=None):
        self.inner = self.desks[options["task"] // 9000]
        return self.inner.reset(seed=seed, options=options)

    def step(self, action):
        return self.inner.step(action)


def simulate(agreement: Agreement, model: Path, make: Callable[[], gymnasium.Env], out: Path) -> None:
    """The same agreement in one process; `make` makes the environment of both sites."""
    spec = llm.Pretrained(str(model), llm.Lora(**LORA), threads=1, dtype="float32")
    method = fedavg(llm.grpo(spec, llm.Grpo(**GRPO), llm.Acting(**ACTING), **STEP))
    lists = [TASKS["a"]["tasks"][0], *TASKS["b"]["tasks"]]
    looked_at = [*TASKS["a"]["held_out"], *TASKS["b"]["held_out"]]
    own = {i: (lists[i], looked_at[2 * i : 2 * i + 2]) for i in range(3)}
    federation = language.federation_of(agreement, make, own)
    evaluation = language.agents(agreement, model, 1).evaluation
    fedrl.train(
        method, federation, rounds=2, seed=5, out=out, engine=one_at_a_time(), evaluation=evaluation,
        faults=server_app.rule(agreement), callback=lambda row, rounds: None,
    )  # fmt: skip
