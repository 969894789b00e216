"""Measurement is an exchange like any other; it leaves the server as it was."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from fedrl.aggregation.mean import stack
from fedrl.environments import solvers
from fedrl.federation import Federation
from fedrl.links.plain import plain
from fedrl.selection.participation import Participation, everyone
from fedrl.types import Algorithm, Client, Exchange, LocalUpdate

Measure = Callable[[Algorithm, Federation], Exchange]


def exact_return(participation: Participation = everyone(), *, start: Array | None = None) -> Measure:
    """J_c(pi) of each client by a linear solve, plain (not regularised) and discounted: Eq. (1) of 003, Eq. (3) of 000.

    `start` evaluates from another start distribution than the one trained from. A large population is measured on the
    clients that `participation` chooses.
    """

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        gamma = federation.environment.gamma

        def value(answer, client: Client, key) -> Array:
            pi = solvers.probabilities(algorithm.policy, algorithm.theta_of(answer, client))
            return jnp.dot(client.world.start if start is None else start, solvers.value(client.world, pi, gamma))

        def receive(server, returns: Array, cohort, key):
            return server, {"return": jnp.sum(cohort.weight * returns), "returns": returns}

        local = LocalUpdate(
            start=value,
            estimate=lambda local, client, key: ((), local),
            apply=lambda local, direction, client: local,
            finish=lambda local, client: (local, client.memory, jnp.zeros((), jnp.int32)),
            max_steps=0,
        )
        return Exchange(
            name="measure",
            choose=participation(federation),
            send=lambda server, client_id: algorithm.answer(server),
            local=local,
            combine=stack,
            receive=receive,
            channel=plain,
        )

    return build
