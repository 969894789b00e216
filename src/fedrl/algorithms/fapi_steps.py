"""The steps of federated approximate policy iteration, and the exact ones for finite MDPs (Xie & Song 2025).

`bellman_sweeps` and `greedy_step` are for clients that know their own kernel, so no environment step is taken.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked
from fedrl.environments.protocol import Environment, Host, finite_sizes
from fedrl.environments.tabular import solvers
from fedrl.keys import Key
from fedrl.theory.fapi import backup
from fedrl.trees import Tree
from fedrl.types import Apply, Client, Estimate, InitParameters, LocalUpdate


class Iterate(NamedTuple):
    """The state of policy iteration: the message to a client, and what it works on."""

    theta: Tree  # pi^t
    w: Tree  # V^t, which the server keeps beside theta
    selection: Tree = ()  # what a selection announces to the clients that improve


class Critic(NamedTuple):
    """The memory of a client that evaluates for itself."""

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


def _without_acting(estimate: Estimate, apply: Apply, upload: Callable[[Iterate], Tree]) -> LocalUpdate:
    return LocalUpdate(
        start=lambda message, client, key: message,
        sample=lambda local, client, key: (),
        estimate=estimate,
        apply=apply,
        finish=lambda local, client: (upload(local), (), jnp.zeros((), jnp.int32)),
    )
