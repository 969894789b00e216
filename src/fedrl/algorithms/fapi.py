"""Federated approximate policy iteration: Algorithms 1 and 2 of Xie & Song 2025, and their exact tabular steps.

How a policy is evaluated and improved are arguments; `bellman_sweeps` and `greedy_step` are the ones for finite MDPs
whose clients know their own kernel, so that no environment step is taken.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.aggregation.mean import mean
from fedrl.algorithms.federated import Project, federated
from fedrl.algorithms.server_rules import Phase, Receive, ServerRule, ServerState, update_norm
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.core.client import all_steps
from fedrl.environments import protocol
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.environments.tabular import solvers
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.policies.kinds import require_probabilities
from fedrl.policies.probabilities import probability_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.theory.fapi import backup
from fedrl.trees import Tree
from fedrl.types import (
    Apply,
    BuildPolicy,
    Channel,
    Client,
    Cohort,
    Combine,
    Estimate,
    InitParameters,
    Learner,
    LocalUpdate,
    Metrics,
    Policy,
)


class Iterate(NamedTuple):
    """Where policy iteration stands: what a client is sent and works on."""

    theta: Tree  # pi^t
    w: Tree  # V^t, which the server keeps beside theta
    selection: Tree = ()  # what a selection tells those who improve


class Critic(NamedTuple):
    """What a client keeps where nobody else evaluates for it."""

    w: Tree  # V_n of the last round it took part in


class Evaluation(NamedTuple):
    init: InitParameters  # of w
    local: LocalUpdate  # from an `Iterate`, which it only changes in w; uploads w_n


BuildEvaluation = Callable[[Environment | Host], Evaluation]
BuildImprovement = Callable[
    [Environment | Host], LocalUpdate
]  # from an `Iterate`, changed only in theta; uploads theta_n


@checked
def bellman_sweeps(sweeps: int | None = None) -> BuildEvaluation:
    """V_n: `sweeps` applications of T_n^pi to the last V, or with None exactly V_n^pi. The first V is zero."""
    if sweeps is not None and sweeps < 1:
        raise ValueError(f"sweeps must be at least 1, or None for the exact value, got {sweeps}")

    def build(environment: Environment | Host) -> Evaluation:
        gamma, (states, _) = environment.gamma, finite_sizes(environment)

        def residual(local: Iterate, trajectory: Tree, client: Client, key: Key) -> tuple[Array, Iterate]:
            if sweeps is None:
                return solvers.value(client.env_params, local.theta, gamma) - local.w, local
            return backup(client.env_params, local.theta, local.w, gamma) - local.w, local

        local = _without_acting(
            residual,
            apply=lambda local, direction, client: local._replace(w=local.w + direction),
            upload=lambda local: local.w,
        )
        return Evaluation(lambda key: jnp.zeros(states), local._replace(local_steps=sweeps or 1))

    return build


@checked
def greedy_step(step: float = 1.0) -> BuildImprovement:
    """pi_n: `step` of the way from pi to the greedy policy of T_n V, all of it by default. First maximum on ties."""
    if not 0.0 < step <= 1.0:
        raise ValueError(f"step must lie in (0, 1], got {step}; 1 is the greedy policy")

    def build(environment: Environment | Host) -> LocalUpdate:
        def towards_greedy(local: Iterate, trajectory: Tree, client: Client, key: Key) -> tuple[Array, Iterate]:
            q = solvers.lookahead(client.env_params, local.w, environment.gamma)
            greedy = jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1], dtype=local.theta.dtype)
            return greedy - local.theta, local

        return _without_acting(
            towards_greedy,
            apply=lambda local, direction, client: local._replace(theta=local.theta + step * direction),
            upload=lambda local: local.theta,
        )

    return build


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

    `selection` says who improves (Prop. 9), `evaluators` who evaluates; Eq. (10) as printed needs everyone.
    """

    def learner(environment: Environment | Host) -> Learner:
        acting = _acting(policy, environment, evaluate, improve)
        return Learner(acting, acting.init, improve(environment))

    def rule(federation: Federation, learner: Learner) -> ServerRule:
        evaluation = evaluate(protocol.stepwise(federation.environment))
        return ServerRule(
            _putting("theta"),
            init=lambda theta, key: evaluation.init(keys.of(key, "value")),
            message=_iterate,
            before=(Phase("evaluate-policy", evaluation.local, _putting("kept"), evaluators),),
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

        return Learner(acting, acting.init, _after(evaluation.local, improve(environment)), memory)

    def rule(federation: Federation, learner: Learner) -> ServerRule:
        return ServerRule(_putting("theta"), message=_iterate)

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


def _after(evaluation: LocalUpdate, improvement: LocalUpdate) -> LocalUpdate:
    """`improvement` by a client that begins with an evaluation of its own. Both must be traced."""

    def start(message: Iterate, client: Client, key: Key) -> _Own:
        message = message._replace(w=client.memory.w)
        evaluated = all_steps(evaluation, message, client, keys.of(key, "evaluate-policy"))
        w, _, env_steps = evaluation.finish(evaluated, client)
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


def _putting(part: Literal["theta", "kept"]) -> Receive:
    """What the clients' average of a part is put in the place of; it stays as it was if nobody answers."""

    def receive(server: ServerState, average: Tree, cohort: Cohort, key: Key) -> tuple[ServerState, Metrics]:
        before = getattr(server, part)
        after = trees.where(jnp.any(cohort.present), average, before)
        return server._replace(**{part: after}), update_norm(trees.subtract(after, before))

    return receive


def _without_acting(estimate: Estimate, apply: Apply, upload: Callable[[Iterate], Tree]) -> LocalUpdate:
    return LocalUpdate(
        start=lambda message, client, key: message,
        sample=lambda local, client, key: (),
        estimate=estimate,
        apply=apply,
        finish=lambda local, client: (upload(local), (), jnp.zeros((), jnp.int32)),
    )
