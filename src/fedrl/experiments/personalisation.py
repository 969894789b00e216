"""Personalisation: what a client gains by training the common policy on, alone, over that policy and over going it alone."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import client_returns, keys
from fedrl.arguments import at_least
from fedrl.client_returns import ClientReturns
from fedrl.core.round import State
from fedrl.engines.engine import Engine
from fedrl.environments.tabular import finite
from fedrl.evaluation import Evaluation, exact_return, sampled_return
from fedrl.experiments import orders, outcomes, restore
from fedrl.experiments.apart import apart, subset
from fedrl.experiments.judge import mean_se
from fedrl.experiments.recipe import RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.finished_run import Run
from fedrl.policies.saved import TEXT, SavedPolicy
from fedrl.records import checkpoint, experiment_file, returns_file
from fedrl.records.log import LogWriter
from fedrl.records.run_toml import run_of_arm
from fedrl.records.tensors import save_tree
from fedrl.trained import Experiment, Trained, like
from fedrl.training import train

EPISODES = 20
KINDS = ("common", "personal", "alone")  # the run's policy, it trained on, and one trained from scratch as long


class Source(NamedTuple):
    """A finished run to personalise."""

    arm: str
    method: Method
    trained: Trained
    first_seed: int
    seeds: int
    folder: Path  # below which personal policies are written


class Personal(NamedTuple):
    clients: list[int]
    rounds: int
    returns: dict[str, np.ndarray]  # "common", "personal", "alone" -> [seeds, clients]
    env_steps: dict[str, float]  # that a client took: "personal", "alone"
    folder: Path  # with a folder `client-I` for each personal policy, which `fedrl.load` reads
    arm: str
    how: str  # returns were measured

    def summary(self) -> list[dict[str, Any]]:
        """For each client and kind, the mean over seeds and its standard error (None with one seed)."""
        rows = []
        for place, client in enumerate(self.clients):
            row: dict[str, Any] = {"client": client}
            for kind in KINDS:
                mean, error = mean_se(self.returns[kind][:, place])
                row[kind] = {"mean": mean, "se": None if np.isnan(error) else error}
            rows.append(row)
        return rows


def personalise(
    run: Run | str | Path,
    client: int | Sequence[int] | None = None,
    *,
    rounds: int,
    arm: str | None = None,
    episodes: int = EPISODES,
    engine: Engine | None = None,
    trust: bool = False,
) -> Personal:
    """Train the common policy on for `rounds` rounds on one `client` alone (several; None: on each of them, apart).

    The method and its learner are the run's, theta_0 is the common policy with its filters. Its return stands beside the
    common policy's and that of training alone from scratch for as many rounds, all measured in the same fresh `episodes`
    (finite MDPs exactly). Writes below `personal/` in the run's folder; called again, it continues.

    `run` is a run of `fedrl.train(out=…)` or its folder (`trust` as in `fedrl.load`), or a recipe's folder, of which
    `arm` is taken (None: the first).
    """
    at_least(1, rounds=rounds, episodes=episodes)
    source = find(run, arm, engine, trust)
    clients = _numbers(client, source.trained.federation.count)
    everyone = len(clients) == source.trained.federation.count > 1
    name = "all" if everyone else f"client-{'-'.join(map(str, clients))}"
    folder = source.folder / f"{name}-rounds-{rounds}"
    part = subset(source.trained.federation, clients)
    begin = partial(apart, source.method, source.trained.federation, clients)
    methods = {"personal": begin(source.trained.state, source.first_seed), "alone": begin(None, source.first_seed)}
    runs = {kind: _train(source, it, part, rounds, folder / "training" / kind) for kind, it in methods.items()}
    measured = {"common": _evaluate(source, part, methods["personal"], None, episodes)}
    for kind, it in methods.items():
        measured[kind] = _evaluate(source, part, it, folder / "training" / kind / "checkpoint", episodes)
    returns = {kind: it.returns for kind, it in measured.items()}
    for place, number in enumerate(clients.tolist()):
        pair = (returns[kind][:, place : place + 1] for kind in ("common", "personal"))
        save_personal(folder / f"client-{number}", runs["personal"].saved, place, number, *pair)
    steps = {kind: run.rows[-1]["env_steps"] / len(clients) for kind, run in runs.items()}
    return Personal(clients.tolist(), rounds, returns, steps, folder, source.arm, measured["common"].how)


def find(run: Run | str | Path, arm: str | None = None, engine: Engine | None = None, trust: bool = False) -> Source:
    """The finished run: of a recipe, or of `fedrl.train`."""
    folder = run.folder if isinstance(run, Run) else Path(run)
    if folder is None:
        raise RecipeError("this run was not written to a folder, which personalising continues from; train with out=…")
    if home := run_of_arm(folder):
        folder, arm = home, arm or folder.absolute().name
    source = _of_train(folder, arm, trust) if restore.is_of_train(folder) else _of_recipe(folder, arm)
    return source if engine is None else source._replace(trained=source.trained._replace(engine=engine))


def _of_recipe(folder: Path, arm: str | None) -> Source:
    order = orders.from_toml(folder)
    folder = folder.parent if folder.is_file() else folder
    name, it = next(iter(restore.arms(order, arm).items()))
    place = folder / "personal" / outcomes.arm_folder(folder, name).name
    return Source(name, it.method, restore.arm_of(order, folder, name, it), order.seed, order.seeds, place)


def _of_train(path: Path, arm: str | None, trust: bool) -> Source:
    run = restore.run(path, arm, trust=trust)
    (name, trained), experiment = next(iter(run.arms.items())), _experiment(run.path, trust)
    return Source(name, experiment.method, trained, run.seed, len(experiment.seeds), run.path / "personal")


def _experiment(folder: Path, trust: bool) -> Experiment:
    experiment: Experiment = experiment_file.read(folder, trust=trust)
    return experiment


def _numbers(client: int | Sequence[int] | None, count: int) -> np.ndarray:
    numbers = np.unique(np.arange(count) if client is None else np.asarray(client))
    if numbers.dtype.kind not in "iu" or not numbers.size:
        raise RecipeError(
            f"client expects a number or a list of numbers from 0 to {count - 1}, got {client!r}; correct it"
        )
    for number in numbers:
        if not 0 <= number < count:
            raise RecipeError(f"there is no client {number}; the run has {count}, from 0 to {count - 1}")
    return numbers.astype(np.int32)


def _train(source: Source, method: Method, part: Federation, rounds: int, out: Path) -> Run:
    return train(
        method, part, rounds=rounds, seed=source.first_seed, seeds=source.seeds, out=out, eval_every=rounds,
        engine=source.trained.engine, evaluation=_quick_evaluation(part),
    )  # fmt: skip


def _quick_evaluation(part: Federation) -> Evaluation:
    """For the log of the training; what counts is measured afterwards."""
    return exact_return() if isinstance(jax.eval_shape(part.example), finite.MDP) else sampled_return(1)


def _evaluate(source: Source, part: Federation, method: Method, place: Path | None, episodes: int) -> ClientReturns:
    """With the states in the checkpoints at `place`, or with None before any training; always in the same episodes."""
    algorithm = method(part)
    if place is None:
        state = jax.jit(jax.vmap(_beginning(algorithm, part)))(
            jnp.arange(source.first_seed, source.first_seed + source.seeds, dtype=jnp.uint32)
        )
    else:
        newest, _ = checkpoint.newest(place, like(algorithm, part, source.seeds))
        assert newest is not None
        state = newest.state
    it = source.trained._replace(algorithm=algorithm, federation=part, evaluation=None, state=state)
    return client_returns.evaluate(it, episodes)


def _beginning(algorithm: Any, part: Federation) -> Callable[[Any], State]:
    def begin(seed: Any) -> State:
        key = jax.random.key(seed)
        return State(key, algorithm.init(keys.of(key, "init")), part.enrol(part.shared(), key, algorithm))

    return begin


def save_personal(
    folder: Path, saved: SavedPolicy, place: int, client: int, common: np.ndarray, personal: np.ndarray
) -> None:
    """The policy of one client as a run of its own that `fedrl.load` reads: returns [seeds, 1] before and after."""
    header, own = saved.header, saved.header.get("own_tensors")
    if not own:
        raise RecipeError("only the learner's own code can compute what its clients act with, so no file can hold it")
    names = {name: name.replace("clients/", "theta/", 1) for roles in own.values() for name in roles.values()}
    tensors = {new: saved.tensors[name][:, place] for name, new in names.items()}
    roles = {group: {role: names[name] for role, name in of.items()} for group, of in own.items()}
    spaces = {key: header[f"own_{key}"][place] for key in ("observations", "actions") if f"own_{key}" in header}
    left_out = ("own_tensors", "own_observations", "own_actions")
    header = {key: x for key, x in header.items() if key not in left_out} | spaces
    header |= {"tensors": roles, "clients": 1, "client": client}
    text = {key: x if key in TEXT else json.dumps(x) for key, x in header.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with LogWriter(folder / "log.jsonl", 0) as log:
        for done, returns in ((0, common), (header["rounds"], personal)):
            log.write({"round": done, "return": returns.mean(), "return_by_seed": returns[:, 0], "seeds": len(returns)})
    returns_file.write(folder, personal, header["rounds"])
    save_tree(folder / "policy.safetensors", tensors, text)
