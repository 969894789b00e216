"""How well language agents do on tasks that nobody trains on: success, score, and success by type of task."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import checked_only
from fedrl.environments.errors import check_parameters
from fedrl.evaluation import Evaluation, evaluation_exchange
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.llm.episodes import Acting, Episode, noise_of, play
from fedrl.llm.learner import Look, random_at
from fedrl.llm.models.loading import Spec, opened
from fedrl.llm.models.model import Theta, load
from fedrl.llm.partitions.draws import at
from fedrl.llm.tasks import TextWorld
from fedrl.types import Algorithm, Client, Cohort, Exchange, LocalUpdate, Metrics, Mode

HOW = Acting(temperature=0.4)  # as released
SIDE_BY_SIDE = 64  # episodes played at once: what they have read has to fit in memory


class Evaluated(NamedTuple):
    """A part of the tasks while it is evaluated; both arrays are sums over its episodes, [types]."""

    theta: Theta
    won: Array
    score: Array


@checked_only
def held_out(
    spec: Spec,
    world: TextWorld,
    tasks: Sequence[int] | np.ndarray,
    *,
    acting: Acting = HOW,
    chunks: int = 1,
) -> Evaluation:
    """One episode of each of `tasks` with the server's parameters, sampled as `acting` says.

    The tasks go in `chunks` parts, to be evaluated at the same time where there are workers. The log has the success rate
    ("return"), that of each part ("returns"), "score", and "success/<type>" for every type of task. The draws are the same
    in every round; another number of chunks draws others.
    """
    parts = np.array_split(np.asarray(tasks, np.int64), chunks) if 1 <= chunks <= len(tasks) else []
    if not parts:
        raise ValueError(f"{len(tasks)} tasks cannot be held out in {chunks} chunks; give at least one task to each")

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        if chunks > federation.count:
            raise ValueError(
                f"the tasks are evaluated by clients, a chunk each, but {chunks} chunks are more than the federation's "
                f"{federation.count} clients; lower chunks"
            )
        kinds = _types(world, tasks)
        names = sorted(set(kinds.values()))
        number = np.array([[sum(kinds[t] == name for t in part.tolist()) for name in names] for part in parts])
        share = jnp.asarray([len(part) / len(tasks) for part in parts], jnp.float32)

        def start(theta: Theta, client: Client, key: Key) -> Evaluated:
            return Evaluated(theta, jnp.zeros(len(names)), jnp.zeros(len(names)))

        def sample(local: Evaluated, client: Client, key: Key) -> list[Episode]:
            check_parameters(int(client.id), local.theta)
            mine = parts[int(client.id)]
            return played(spec, world, mine, local.theta, lambda first: random_at(key, str(first)), acting)

        def estimate(local: Evaluated, seen: list[Episode], client: Client, key: Key) -> tuple[tuple, Evaluated]:
            won, score = np.zeros(len(names), np.float32), np.zeros(len(names), np.float32)
            for episode in seen:
                at = names.index(kinds[episode.task])
                won[at], score[at] = won[at] + episode.won, score[at] + episode.score
            return (), local._replace(won=jnp.asarray(won), score=jnp.asarray(score))

        def choose(server: Any, key: Key) -> Cohort:
            ids = jnp.arange(chunks, dtype=jnp.int32)
            return Cohort(ids, share, jnp.ones(ids.shape, bool), jnp.zeros(ids.shape, jnp.int32))

        def receive(server: Any, sums: tuple[Array, Array], cohort: Cohort, key: Key) -> tuple[Any, Metrics]:
            won, score = sums  # [chunks, types]
            of_type = jnp.sum(won, axis=0) / jnp.asarray(number.sum(axis=0), won.dtype)
            metrics = {
                "return": jnp.sum(won) / len(tasks),
                "returns": jnp.sum(won, axis=1) / jnp.asarray(number.sum(axis=1), won.dtype),
                "score": jnp.sum(score) / len(tasks),
            }
            return server, metrics | {f"success/{name}": of_type[i] for i, name in enumerate(names)}

        local = LocalUpdate(
            start,
            sample,
            estimate,
            apply=lambda local, nothing, client: local,
            finish=lambda local, client: ((local.won, local.score), (), jnp.zeros((), jnp.int32)),
            mode=Mode.PYTHON,
        )
        return evaluation_exchange(algorithm, local, choose, receive)

    return build


def played(
    spec: Spec,
    world: TextWorld,
    tasks: np.ndarray,
    theta: Theta,
    random: Callable[[int], np.random.Generator],
    acting: Acting = HOW,
) -> list[Episode]:
    """One episode of each of `tasks`, some at a time; `random` is asked for the draws of those from a number on."""
    model, found = opened(spec), list[Episode]()
    load(model, theta)
    for first in range(0, len(tasks), SIDE_BY_SIDE):
        some = tasks[first : first + SIDE_BY_SIDE].tolist()
        found += play(model, spec.teller(), world.make, some, 1, noise_of(random(first), len(some), acting), acting)
    return found


@checked_only
def success(spec: Spec, world: TextWorld, tasks: np.ndarray, acting: Acting = HOW) -> Look:
    """What a client is to say of the model it has learnt (`learner.grpo`): success and score on `tasks`, with the same draws
    whoever and whenever it is.
    """

    def look(theta: Theta) -> np.ndarray:
        episodes = played(spec, world, tasks, theta, lambda first: at(0, "look", first), acting)
        return np.mean([(episode.won, episode.score) for episode in episodes], axis=0)

    return look


def _types(world: TextWorld, tasks: Sequence[int] | np.ndarray) -> dict[int, str]:
    found = {}
    with world.make() as env:
        for task in map(int, tasks):
            _, info = env.reset(seed=task, options={"task": task})
            found[task] = str(info["task_type"])
    return found
