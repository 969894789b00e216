"""Evaluation of language agents on held-out tasks: success, score, and success by type of task."""

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
from fedrl.llm.episodes import Acting, Episode
from fedrl.llm.learner import EvaluateTheta
from fedrl.llm.models.loading import Spec
from fedrl.llm.models.model import Theta
from fedrl.llm.policy import language_policy
from fedrl.llm.randomness import generator_at, generator_of
from fedrl.llm.tasks import TextEnvironment
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, LocalUpdate, Metrics, Mode

HELD_OUT_ACTING = Acting(temperature=0.4)  # as released
EPISODES_AT_ONCE = 64  # their caches must fit in memory


class EvaluationState(NamedTuple):
    """A part of the tasks while it is evaluated; both arrays are sums over its episodes, [types]."""

    theta: Theta
    won: Array
    score: Array


@checked_only
def held_out(
    spec: Spec,
    environment: TextEnvironment,
    tasks: Sequence[int] | np.ndarray,
    *,
    acting: Acting = HELD_OUT_ACTING,
    chunks: int = 1,
) -> Evaluation:
    """One episode of each of `tasks` with the server's parameters, sampled as `acting` says.

    Clients evaluate the tasks in `chunks` parts, in parallel where there are workers. The log has the success rate
    ("return"), that of each part ("returns"), "score", and "success/<type>" for every type of task. The draws are the same
    in every round, but depend on the number of chunks.
    """
    parts = np.array_split(np.asarray(tasks, np.int64), chunks) if 1 <= chunks <= len(tasks) else []
    if not parts:
        raise ValueError(f"{len(tasks)} tasks cannot be held out in {chunks} chunks; give at least one task to each")

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        if chunks > federation.count:
            raise ValueError(
                f"each client evaluates one chunk of the tasks, but {chunks} chunks are more than the federation's "
                f"{federation.count} clients; lower chunks"
            )
        kinds = _task_types(environment, tasks)
        names = sorted(set(kinds.values()))
        number = np.array([[sum(kinds[t] == name for t in part.tolist()) for name in names] for part in parts])
        share = jnp.asarray([len(part) / len(tasks) for part in parts], jnp.float32)

        def start(theta: Theta, client: Client, key: Key) -> EvaluationState:
            return EvaluationState(theta, jnp.zeros(len(names)), jnp.zeros(len(names)))

        def sample(local: EvaluationState, client: Client, key: Key) -> list[Episode]:
            check_parameters(int(client.id), local.theta)
            part = parts[int(client.id)]
            return play_tasks(spec, environment, part, local.theta, lambda first: generator_of(key, str(first)), acting)

        def estimate(
            local: EvaluationState, episodes: list[Episode], client: Client, key: Key
        ) -> tuple[Tree, EvaluationState]:
            won, score = np.zeros(len(names), np.float32), np.zeros(len(names), np.float32)
            for episode in episodes:
                index = names.index(kinds[episode.task])
                won[index], score[index] = won[index] + episode.won, score[index] + episode.score
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
            apply=lambda local, direction, client: local,
            finish=lambda local, client: ((local.won, local.score), (), jnp.zeros((), jnp.int32)),
            mode=Mode.PYTHON,
        )
        return evaluation_exchange(algorithm, local, choose, receive)

    return build


def play_tasks(
    spec: Spec,
    environment: TextEnvironment,
    tasks: np.ndarray,
    theta: Theta,
    generator: Callable[[int], np.random.Generator],
    acting: Acting = HELD_OUT_ACTING,
) -> list[Episode]:
    """One episode of each of `tasks`, in batches; `generator(first)` draws for the batch that begins with task `first`."""
    policy, episodes = language_policy(spec), list[Episode]()
    for first in range(0, len(tasks), EPISODES_AT_ONCE):
        batch = tasks[first : first + EPISODES_AT_ONCE].tolist()
        episodes += policy.play(theta, environment, batch, 1, generator(first), acting)
    return episodes


@checked_only
def success(
    spec: Spec, environment: TextEnvironment, tasks: np.ndarray, acting: Acting = HELD_OUT_ACTING
) -> EvaluateTheta:
    """Success and score on `tasks` of the model a client has trained (`learner.grpo`); the draws are always the same."""

    def evaluate(theta: Theta) -> np.ndarray:
        episodes = play_tasks(spec, environment, tasks, theta, lambda first: generator_at(0, "look", first), acting)
        return np.asarray(np.mean([(episode.won, episode.score) for episode in episodes], axis=0))

    return evaluate


def _task_types(environment: TextEnvironment, tasks: Sequence[int] | np.ndarray) -> dict[int, str]:
    types = {}
    with environment.make() as env:
        for task in map(int, tasks):
            _, info = env.reset(seed=task, options={"task": task})
            types[task] = str(info["task_type"])
    return types
