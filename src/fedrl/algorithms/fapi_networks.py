"""FAPI with networks: Algorithms 1 and 2 of Xie & Song 2025, evaluated and improved by the two halves of PPO."""

from typing import Any

import jax.numpy as jnp

from fedrl import trees
from fedrl.aggregation.mean import mean
from fedrl.algorithms.fedavg import Method, Model, fedavg, warm_up
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.own_critic import own_critic
from fedrl.local.ppo import ppo
from fedrl.selection.participation import Participation, everyone
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Exchange, LocalUpdate, Metrics


def deep_fapi_with_federated_evaluation(
    *, participation: Participation = everyone(), evaluators: Participation = everyone(), **settings: Any
) -> Method:
    """Algorithm 1: the critics fitted to pi^t are averaged to V^t, against which the clients then improve pi^t.

    `settings` are PPO's; each of its iterations acts anew, so a round takes twice the environment steps of Algorithm 2.
    """
    evaluate, improve = ppo(**settings | {"epochs": 0}), ppo(**settings | {"critic_epochs": 0})

    def build(federation: Federation) -> Algorithm:
        evaluating, improving = evaluate(federation.environment), improve(federation.environment)

        def exchange(name: str, choose: Any, local: LocalUpdate, played: int) -> Exchange:
            def receive(server: Model, moved: Tree, cohort: Cohort, key: Key) -> tuple[Model, Metrics]:
                after = server._replace(theta=trees.add(server.theta, moved), round=server.round + played)
                return after, {"update_norm": trees.squared_norm(moved) ** 0.5}

            return Exchange(name, choose, lambda server, client_id: server, local, mean, receive, plain)

        return Algorithm(
            init=lambda key: Model(improving.init(key), jnp.zeros((), jnp.int32)),
            exchanges=(
                exchange("evaluate-policy", evaluators(federation), evaluating.local, 0),
                exchange("train", participation(federation), improving.local, 1),
            ),
            answer=lambda server: server.theta,
            policy=improving.policy,
            opening=warm_up(federation, improving),
            memory=improving.memory,
            theta_of=improving.acts_with,
        )

    return build


def deep_fapi_without_federated_evaluation(*, participation: Participation = everyone(), **settings: Any) -> Method:
    """Algorithm 2: each client fits a V_n of its own, which never travels, and improves against it."""
    return fedavg(own_critic(ppo(**settings)), participation=participation)
