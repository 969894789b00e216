"""Evaluation of language agents whose held-out tasks are their clients' own; two numbers of each client travel."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.errors import check_parameters
from fedrl.evaluation import Evaluation, evaluation_exchange
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.selection.participation import cohort
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, LocalUpdate, Metrics, Mode


class EvaluationState(NamedTuple):
    theta: Tree
    success: Array  # share of the held-out tasks that were won
    score: Array


def own_held_out(spec: Any, tasks: int, acting: Any) -> Evaluation:
    """One episode of each of the `tasks` in every client's `env_params.held_out`, with the server's parameters.

    The log has the mean success rate of clients ("return", by their weights), that of each ("returns"), and "score".
    """
    from fedrl.llm.evaluation import play_tasks
    from fedrl.llm.randomness import generator_of

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        environment: Any = federation.environment

        def start(theta: Tree, client: Client, key: Key) -> EvaluationState:
            return EvaluationState(theta, jnp.zeros(()), jnp.zeros(()))

        def sample(local: EvaluationState, client: Client, key: Key) -> list[Any]:
            check_parameters(int(client.id), local.theta)
            own = np.asarray(client.env_params.held_out, np.int64)
            return play_tasks(spec, environment, own, local.theta, lambda first: generator_of(key, str(first)), acting)

        def estimate(
            local: EvaluationState, episodes: list[Any], client: Client, key: Key
        ) -> tuple[Tree, EvaluationState]:
            success, score = (
                jnp.float32(sum(float(x) for x in of_each) / tasks)
                for of_each in zip(*((episode.won, episode.score) for episode in episodes), strict=True)
            )
            return (), local._replace(success=success, score=score)

        def receive(server: Any, sent: tuple[Array, Array], cohort: Cohort, key: Key) -> tuple[Any, Metrics]:
            success, score = sent
            means = {name: jnp.sum(cohort.weight * each) for name, each in (("return", success), ("score", score))}
            return server, means | {"returns": success}

        local = LocalUpdate(
            start,
            sample,
            estimate,
            apply=lambda local, direction, client: local,
            finish=lambda local, client: ((local.success, local.score), (), jnp.zeros((), jnp.int32)),
            possible=lambda returned, client: (returned[0] >= 0) & (returned[0] <= 1),
            mode=Mode.PYTHON,
        )
        everyone = jnp.arange(federation.count, dtype=jnp.int32)
        return evaluation_exchange(algorithm, local, lambda server, key: cohort(federation, everyone), receive)

    return build
