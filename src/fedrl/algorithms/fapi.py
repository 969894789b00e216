"""Federated approximate policy iteration: Algorithms 1 and 2 of Xie & Song 2025, and their exact tabular steps.

How a policy is evaluated and improved are arguments; `bellman_sweeps` and `greedy_step` are the ones for finite MDPs
whose clients know their own kernel, so that no environment step is taken.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.aggregation.mean import mean
from fedrl.algorithms.fedavg import Method
from fedrl.arguments import checked
from fedrl.environments import solvers
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.policies.kinds import want_probabilities
from fedrl.policies.probabilities import probability_table
from fedrl.round import work
from fedrl.selection.participation import EVERYONE, Participation
from fedrl.theory.fapi import backup
from fedrl.trees import Tree
from fedrl.types import Algorithm, BuildPolicy, Client, Cohort, Exchange, LocalUpdate, Metrics


class Iterate(NamedTuple):
    """Where policy iteration stands: what a client is sent and works on."""

    theta: Tree  # pi^t
    w: Tree  # V^t


class Critic(NamedTuple):
    """What a client keeps where nobody else evaluates for it."""

    w: Tree  # V_n of the last round it took part in


class Evaluation(NamedTuple):
    init: Callable  # (key) -> w
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

        def residual(local: Iterate, seen: Tree, client: Client, key: Key) -> tuple[Array, Iterate]:
            if sweeps is None:
                return solvers.value(client.world, local.theta, gamma) - local.w, local
            return backup(client.world, local.theta, local.w, gamma) - local.w, local

        local = _without_acting(
            residual,
            apply=lambda local, direction, client: local._replace(w=local.w + direction),
            upload=lambda local: local.w,
        )
        return Evaluation(lambda key: jnp.zeros(states), local._replace(max_steps=sweeps or 1))

    return build


@checked
def greedy_step(step: float = 1.0) -> BuildImprovement:
    """pi_n: `step` of the way from pi to the greedy policy of T_n V, all of it by default. First maximum on ties."""
    if not 0.0 < step <= 1.0:
        raise ValueError(f"step must lie in (0, 1], got {step}; 1 is the greedy policy")

    def build(environment: Environment | Host) -> LocalUpdate:
        def towards_greedy(local: Iterate, seen: Tree, client: Client, key: Key) -> tuple[Array, Iterate]:
            q = solvers.lookahead(client.world, local.w, environment.gamma)
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
    participation: Participation = EVERYONE,
    evaluators: Participation = EVERYONE,
) -> Method:
    """Algorithm 1: clients evaluate pi^t and the server averages to V^t; they improve against it and it averages pi.

    `participation` draws who improves (Prop. 9), `evaluators` who evaluates; Eq. (10) as printed wants everyone.
    """

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        acting, evaluation = policy(environment), evaluate(environment)
        if _tabular(evaluate) or _tabular(improve):
            want_probabilities("FAPI", acting)
        exchanges = (
            _exchange("evaluate-policy", evaluators(federation), evaluation.local, "w"),
            _exchange("train", participation(federation), improve(environment), "theta"),
        )
        return Algorithm(
            init=lambda key: Iterate(acting.init(key), evaluation.init(keys.of(key, "value"))),
            exchanges=exchanges,
            answer=lambda server: server.theta,
            policy=acting,
        )

    return build


@checked
def fapi_without_federated_evaluation(
    *,
    evaluate: BuildEvaluation = bellman_sweeps(),
    improve: BuildImprovement = greedy_step(),
    policy: BuildPolicy = probability_table(),
    participation: Participation = EVERYONE,
) -> Method:
    """Algorithm 2: one exchange, in which each client evaluates pi^t and improves against its own V_n.

    A client keeps its V_n, from which the next evaluation starts; it is never uploaded. Partial participation is
    Prop. 7. With one client, or equal ones that all take part, this is Algorithm 1.
    """

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        acting, evaluation = policy(environment), evaluate(environment)
        if _tabular(evaluate) or _tabular(improve):
            want_probabilities("FAPI", acting)

        exchange = _exchange(
            "train", participation(federation), _after(evaluation.local, improve(environment)), "theta"
        )
        return Algorithm(
            init=lambda key: Iterate(acting.init(key), ()),
            exchanges=(exchange,),
            answer=lambda server: server.theta,
            policy=acting,
            memory=lambda client_id, key: Critic(evaluation.init(keys.of(key, "value"))),
        )

    return build


def _tabular(step: Callable) -> bool:
    """Whether it is one of the steps above."""
    return getattr(step, "arguments", ("",))[0] in ("bellman_sweeps", "greedy_step")


class _Own(NamedTuple):
    """A client that has evaluated and is improving."""

    local: Tree
    w: Tree
    env_steps: Array


def _after(evaluation: LocalUpdate, improvement: LocalUpdate) -> LocalUpdate:
    """`improvement` by a client that begins with an evaluation of its own. Both must be traced."""

    def start(message: Iterate, client: Client, key: Key) -> _Own:
        message = message._replace(w=client.memory.w)
        evaluated = work(evaluation, message, client, keys.of(key, "evaluate-policy"))
        w, _, env_steps = evaluation.finish(evaluated, client)
        return _Own(improvement.start(message._replace(w=w), client, key), w, env_steps)

    def estimate(own: _Own, seen: Tree, client: Client, key: Key) -> tuple[Tree, _Own]:
        direction, local = improvement.estimate(own.local, seen, client, key)
        return direction, own._replace(local=local)

    def finish(own: _Own, client: Client) -> tuple[Tree, Critic, Array]:
        theta, _, env_steps = improvement.finish(own.local, client)
        return theta, Critic(own.w), own.env_steps + env_steps

    return improvement._replace(
        start=start,
        sample=lambda own, client, key: improvement.sample(own.local, client, key),
        estimate=estimate,
        apply=lambda own, direction, client: own._replace(local=improvement.apply(own.local, direction, client)),
        finish=finish,
        most_env_steps=0,  # the evaluation takes some, too
    )


def _exchange(name: str, choose: Callable, local: LocalUpdate, part: str) -> Exchange:
    """Send the iterate, average the clients' `part` of it, put it in place; as it was if nobody answers."""

    def receive(server: Iterate, average: Tree, cohort: Cohort, key: Key) -> tuple[Iterate, Metrics]:
        before = getattr(server, part)
        after = trees.where(jnp.any(cohort.present), average, before)
        change = trees.squared_norm(trees.subtract(after, before)) ** 0.5
        return server._replace(**{part: after}), {"update_norm": change}

    return Exchange(
        name=name,
        choose=choose,
        send=lambda server, client_id: server,
        local=local,
        combine=mean,
        receive=receive,
        channel=plain,
    )


def _without_acting(estimate: Callable, apply: Callable, upload: Callable[[Iterate], Tree]) -> LocalUpdate:
    return LocalUpdate(
        start=lambda message, client, key: message,
        sample=lambda local, client, key: (),
        estimate=estimate,
        apply=apply,
        finish=lambda local, client: (upload(local), (), jnp.zeros((), jnp.int32)),
    )
