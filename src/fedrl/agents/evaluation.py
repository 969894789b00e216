"""How well language agents do on tasks that nobody trains on: success, score, and success by type of task."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.agents.episodes import Acting, Episode, noise_of, play
from fedrl.agents.learner import random_at
from fedrl.agents.models.model import Model, Theta, load
from fedrl.agents.models.opened import Spec, opened
from fedrl.agents.tasks import TextWorld
from fedrl.environments.errors import check_parameters
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.records.measure import Measure, measuring
from fedrl.types import Algorithm, Client, Cohort, Exchange, LocalUpdate, Metrics

SIDE_BY_SIDE = 64  # episodes played at once: what they have read has to fit in memory


class Look(NamedTuple):
    """A part of the tasks while it is evaluated; both arrays are sums over its episodes, [types]."""

    theta: Theta
    won: Array
    score: Array


def held_out(
    spec: Spec,
    world: TextWorld,
    tasks: Sequence[int] | np.ndarray,
    *,
    acting: Acting = Acting(temperature=0.4),
    chunks: int = 1,
) -> Measure:
    """One episode of each of `tasks` with the server's parameters, sampled at the released temperature of 0.4.

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

        def start(theta: Theta, client: Client, key: Key) -> Look:
            return Look(theta, jnp.zeros(len(names)), jnp.zeros(len(names)))

        def sample(local: Look, client: Client, key: Key) -> list[Episode]:
            check_parameters(int(client.id), local.theta)
            mine = parts[int(client.id)]
            model = opened(spec)
            load(model, local.theta)
            return [
                episode
                for first in range(0, len(mine), SIDE_BY_SIDE)
                for episode in played(model, mine[first : first + SIDE_BY_SIDE].tolist(), random_at(key, str(first)))
            ]

        def played(model: Model, some: list[int], random: np.random.Generator) -> list[Episode]:
            return play(model, spec.teller(), world.make, some, 1, noise_of(random, len(some), acting), acting)

        def estimate(local: Look, seen: list[Episode], client: Client, key: Key) -> tuple[tuple, Look]:
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
            traced=False,
            plain=True,
        )
        return measuring(algorithm, local, choose, receive)

    return build


def _types(world: TextWorld, tasks: Sequence[int] | np.ndarray) -> dict[int, str]:
    found = {}
    with world.make() as env:
        for task in map(int, tasks):
            _, info = env.reset(seed=task, options={"task": task})
            found[task] = str(info["task_type"])
    return found
