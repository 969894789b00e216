"""Federated approximate policy iteration: Algorithms 1 and 2 of Xie & Song 2025.

How a policy is evaluated and improved are arguments (`fapi_steps.py`).
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.aggregation.mean import mean
from fedrl.algorithms.fapi_steps import (
    BuildEvaluation,
    BuildImprovement,
    Critic,
    Iterate,
    bellman_sweeps,
    greedy_step,
)
from fedrl.algorithms.federated import Project, federated
from fedrl.algorithms.server_rules import Phase, Receive, ServerRule, ServerState, update_norm
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.core.client import all_steps
from fedrl.environments import protocol
from fedrl.environments.protocol import Environment, Host
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.policies.kinds import require_probabilities
from fedrl.policies.probabilities import probability_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.trees import Tree
from fedrl.types import (
    BuildPolicy,
    Channel,
    Client,
    Cohort,
    Combine,
    Learner,
    LocalUpdate,
    Metrics,
    Policy,
)


@checked
def fapi_with_federated_evaluation(
    *,
    evaluate: BuildEvaluation = bellman_sweeps(),
    improve: BuildImprovement = greedy_step(),
    policy: BuildPolicy = probability_table(),
    evaluators: BuildSelection = everyone(),
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Algorithm 1: clients evaluate pi^t and the server averages to V^t; they improve against it and it averages pi.

    `selection` chooses the clients that improve (Prop. 9), `evaluators` those that evaluate; Eq. (10) as printed needs
    everyone.
    """

    def learner(environment: Environment | Host) -> Learner:
        acting = _acting(policy, environment, evaluate, improve)
        return Learner(acting, acting.init, improve(environment))

    def rule(federation: Federation, learner: Learner) -> ServerRule:
        evaluation = evaluate(protocol.stepwise(federation.environment))
        return ServerRule(
            _replace_with_average("theta"),
            init=lambda theta, key: evaluation.init(keys.of(key, "value")),
            message=_iterate,
            before=(Phase("evaluate-policy", evaluation.local, _replace_with_average("kept"), evaluators),),
        )

    return federated(rule, learner, selection=selection, combine=combine, channel=channel, project=project)


@checked
def fapi_without_federated_evaluation(
    *,
    evaluate: BuildEvaluation = bellman_sweeps(),
    improve: BuildImprovement = greedy_step(),
    policy: BuildPolicy = probability_table(),
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Algorithm 2: one exchange, in which each client evaluates pi^t and improves against its own V_n.

    A client keeps its V_n, from which the next evaluation starts; it is never uploaded. Partial participation is
    Prop. 7. With one client, or equal ones that all take part, this is Algorithm 1.
    """

    def learner(environment: Environment | Host) -> Learner:
        acting, evaluation = _acting(policy, environment, evaluate, improve), evaluate(environment)

        def memory(client_id: Array, key: Key) -> Critic:
            return Critic(evaluation.init(keys.of(key, "value")))

        return Learner(acting, acting.init, _evaluate_then_improve(evaluation.local, improve(environment)), memory)

    def rule(federation: Federation, learner: Learner) -> ServerRule:
        return ServerRule(_replace_with_average("theta"), message=_iterate)

    return federated(rule, learner, selection=selection, combine=combine, channel=channel, project=project)


def _acting(policy: BuildPolicy, environment: Environment | Host, *steps: BuildEvaluation | BuildImprovement) -> Policy:
    acting = policy(environment)
    if any(getattr(step, "arguments", ("",))[0] in ("bellman_sweeps", "greedy_step") for step in steps):
        require_probabilities("FAPI", acting)
    return acting


def _iterate(server: ServerState) -> Iterate:
    return Iterate(server.theta, server.kept, server.selection)


class _Own(NamedTuple):
    """A client that has evaluated and is improving."""

    local: Tree
    w: Tree
    env_steps: Array


def _evaluate_then_improve(evaluation: LocalUpdate, improvement: LocalUpdate) -> LocalUpdate:
    """`improvement`, preceded by the client's own evaluation. Both must be traceable."""

    def start(message: Iterate, client: Client, key: Key) -> _Own:
        message = message._replace(w=client.memory.w)
        local = all_steps(evaluation, message, client, keys.of(key, "evaluate-policy"))
        w, _, env_steps = evaluation.finish(local, client)
        return _Own(improvement.start(message._replace(w=w), client, key), w, env_steps)

    def estimate(own: _Own, trajectory: Tree, client: Client, key: Key) -> tuple[Tree, _Own]:
        direction, local = improvement.estimate(own.local, trajectory, client, key)
        return direction, own._replace(local=local)

    def finish(own: _Own, client: Client) -> tuple[Tree, Critic, Array]:
        theta, _, env_steps = improvement.finish(own.local, client)
        return theta, Critic(own.w), own.env_steps + env_steps

    return improvement._replace(
        start=start,
        sample=lambda own, client, key: improvement.own_sample(own.local, client, key),
        estimate=estimate,
        apply=lambda own, direction, client: own._replace(local=improvement.apply(own.local, direction, client)),
        finish=finish,
        most_env_steps=0,  # the evaluation takes some, too
        metrics=lambda own, client: improvement.metrics(own.local, client),
    )


def _replace_with_average(part: Literal["theta", "kept"]) -> Receive:
    """Replace this part of the server's state by the clients' average; it stays as it was if nobody answers."""

    def receive(server: ServerState, average: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
        before = getattr(server, part)
        after = trees.where(jnp.any(cohort.present), average, before)
        return server._replace(**{part: after}), update_norm(trees.subtract(after, before))

    return receive
