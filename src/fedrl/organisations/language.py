"""Language agents between organisations: one model, whose adapters travel, and tasks that stay at their sites.

    [model]                        # the same files everywhere; at a site in the folder that site.toml names, at the server
    rank = 8                       # in DIR/server/model, where with adapters its config.json is enough
    [model.files]                  # as `fedrl federation check` prints them
    "config.json" = "…"
    [learner]
    name = "grpo"                  # with the settings of fedrl.llm.grpo, and in [learner.settings] of fedrl.llm.Grpo
    [tasks]                        # how agents act: fedrl.llm.Acting, and evaluation_temperature

The server needs no task. In an evaluation every client plays `episodes` of its own held-out tasks, once each, and sends its
share of successes and its mean score.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np

from fedrl.environments.errors import EnvironmentFailed
from fedrl.errors import FedRLError
from fedrl.evaluation import Evaluation
from fedrl.federations.federation import Federation, Method
from fedrl.organisations import model_files, parts
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.from_tables import FILE
from fedrl.organisations.language_evaluation import own_held_out
from fedrl.organisations.tables import FileError, Key, Table, fields
from fedrl.types import BuildLearner

MODEL = {
    "files": Key((dict,), {}),
    "rank": Key((int,), 8, 0),  # of the adapters; 0: all parameters are trained
    "alpha": Key((int,), 16, 1),
    "layers": Key((int,), 0, 0),  # the last ones, which have adapters; 0: all have
    "freeze_a": Key((bool,), False),
    "mean": Key((str,), "factors"),  # of adapters: of their "factors", or of their "products" (`llm.of_products`)
    "system": Key((str,), ""),  # empty: the usual one
    "shows_commands": Key((bool,), True),
    "dtype": Key((str,), "float32"),
    "checkpointing": Key((bool,), False),
}
EVALUATION = {"evaluation_temperature": Key((float,), 0.4, 0)}


class Agents(NamedTuple):
    """What is agreed of language agents."""

    spec: Any  # `llm.Pretrained`
    learner: BuildLearner
    evaluation: Evaluation
    wrap: Callable[[Method], Method]  # how adapters are averaged


class OwnTasks(NamedTuple):
    """The `env_params` of a client: as `llm.tasks.TaskList`, and those that it is evaluated on."""

    tasks: np.ndarray
    number: np.ndarray
    held_out: np.ndarray


def agents(agreement: Agreement, folder: Path | None, threads: int) -> Agents:
    """The agents of the model in `folder`; wrong tables are sentences."""
    if agreement.spaces is not None or agreement.tables["policy"] is not None:
        name = "policy" if agreement.spaces is None else "spaces"
        raise FileError(
            f"{FILE} has both [model] and [{name}]; language agents act by their model, on texts: remove [{name}]"
        )
    table = _model(agreement)
    if folder is None:
        raise FileError('site.toml names no model; write model = "FOLDER", where save_pretrained has left it')
    model_files.check(folder, table["files"], [model_files.CONFIG] if table["rank"] else [])
    llm = _llm()
    spec = spec_of(agreement, folder, threads)
    _built("model", lambda: jax.eval_shape(spec.init, jax.random.key(0)))  # reads its config.json, and finds the layers
    acting, evaluating = _acting(llm, agreement)
    learner = _learner(llm, spec, acting, agreement.tables["learner"])
    evaluation = own_held_out(spec, agreement.episodes, evaluating)
    products = table["mean"] == "products"
    if table["mean"] not in ("factors", "products") or (products and (not table["rank"] or table["freeze_a"])):
        raise FileError(
            f'{FILE} [model]: mean must be "factors", or with a rank and no freeze_a "products", got {table["mean"]!r}'
        )
    return Agents(spec, learner, evaluation, llm.of_products if products else lambda method: method)


def federation_of(
    agreement: Agreement, make: Callable[[], gymnasium.Env[str, str]], own: Mapping[int, tuple[list[int], list[int]]]
) -> Federation:
    """The federation; `own` has the tasks and the held-out tasks of the clients that are here."""
    clients = agreement.num_clients
    longest = max((len(tasks) for tasks, _ in own.values()), default=1)
    known = OwnTasks(
        np.full((clients, longest), -1, np.int32),
        np.zeros(clients, np.int32),
        np.full((clients, agreement.episodes), -1, np.int32),
    )
    for client, (tasks, held_out) in own.items():
        known.tasks[client, : len(tasks)], known.number[client], known.held_out[client] = tasks, len(tasks), held_out
    environment = _llm().TextEnvironment(make, agreement.gamma)
    return Federation(environment, known, weight=parts.weights(agreement))


def closed() -> gymnasium.Env[str, str]:
    raise EnvironmentFailed("tasks are at their sites, and only there")


def spec_of(agreement: Agreement, folder: Path, threads: int) -> Any:
    """The agreed model in `folder`, with its agreed adapters."""
    llm, table = _llm(), _model(agreement)
    given = {name: table[name] for name in ("shows_commands", "dtype", "checkpointing")}
    given |= {"system": table["system"]} if table["system"] else {}

    def build() -> Any:
        lora = llm.Lora(*(table[name] for name in ("rank", "alpha", "layers", "freeze_a"))) if table["rank"] else None
        return llm.Pretrained(str(folder), lora, threads=threads, **given)

    return _built("model", build)


def try_model(agreement: Agreement, folder: Path | None, threads: int) -> None:
    """Open the model, which finds damaged weights, too little memory and a chat template that cannot be used."""
    assert folder is not None  # `agents` has said so
    spec = spec_of(agreement, folder, threads)
    from fedrl.llm.models.loading import open_model

    _built("model", lambda: (open_model(spec), spec.formatter()))


def _model(agreement: Agreement) -> Table:
    return fields(agreement.tables["model"] or {}, MODEL, f"{FILE} [model]")


def _llm() -> Any:
    try:
        import torch  # noqa: F401  # first: where it is missing, transformers talks of it
        import transformers  # noqa: F401

        from fedrl import llm
    except ImportError as error:
        raise FileError(f"language agents need {error.name}; install it here: pip install 'fedrl[llm]'") from error
    return llm


def _acting(llm: Any, agreement: Agreement) -> tuple[Any, Any]:
    """How agents act in training, and in evaluations."""
    table = dict(agreement.tables["tasks"] or {})
    temperature = {name: table.pop(name) for name in EVALUATION if name in table}
    evaluating = fields(temperature, EVALUATION, f"{FILE} [tasks]")["evaluation_temperature"]
    acting = _built("tasks", lambda: llm.Acting(**table))
    return acting, replace(acting, temperature=0.0 if agreement.deterministic else evaluating)


def _learner(llm: Any, spec: Any, acting: Any, table: Table | None) -> BuildLearner:
    given = dict(table or {})
    if given.pop("name", None) != "grpo":
        raise FileError(f'{FILE}: language agents learn by GRPO; write name = "grpo" in [learner]')
    settings = given.pop("settings", {})
    if not isinstance(settings, dict):
        raise FileError(f"{FILE} [learner]: settings expects a table of fedrl.llm.Grpo's, got {settings!r:.60}")
    update = _built("learner.settings", lambda: llm.Grpo(**settings))
    learner: BuildLearner = _built("learner", lambda: llm.grpo(spec, update, acting, **given))
    return learner


def _built(table: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except FedRLError:
        raise
    except (TypeError, ValueError) as error:
        raise FileError(f"{FILE} [{table}]: {error}") from error
