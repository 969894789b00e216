"""Methods whose clients fail on purpose, for the tests of faults in every engine."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.algorithms.fedavg import fedavg
from fedrl.federations.federation import Federation, Method
from fedrl.learners.gradient_steps import Direction, gradient_learner
from fedrl.types import Algorithm, Client, Cohort, Policy

BAD = 2  # the client that fails
STEPS = 12  # environment steps that a local step claims to take


def toward_rewards(environment: Any, policy: Policy) -> Direction:
    """Every client pulls the table of parameters towards its own rewards; compiles at once."""
    return Direction(
        sample=lambda theta, message, client, key: (),
        learn=lambda theta, message, trajectory, client, key: (client.env_params.reward - theta, jnp.int32(STEPS)),
        most_env_steps=STEPS,
    )


SMALL = fedavg(gradient_learner(toward_rewards, eta=0.3, local_steps=2))


def scaled(factor: float, clients: tuple[int, ...] = (BAD,), method: Method = SMALL) -> Method:
    """`method`, with the uploads of some clients times a factor, NaN say."""

    def build(federation: Federation) -> Algorithm:
        algorithm = method(federation)
        train = algorithm.training
        finish = train.local.finish

        def changed(local: Any, client: Client) -> tuple[Any, Any, Array]:
            upload, memory, env_steps = finish(local, client)
            theirs = jnp.isin(client.id, jnp.array(clients))
            return jax.tree.map(lambda x: jnp.where(theirs, x * factor, x), upload), memory, env_steps

        local = train.local._replace(finish=changed)
        return algorithm.with_training(train._replace(local=local))

    return build


def without(client: int, method: Method = SMALL) -> Method:
    """`method`, of which one client is never part."""

    def build(federation: Federation) -> Algorithm:
        algorithm = method(federation)
        train = algorithm.training

        def choose(server: Any, key: Any) -> Cohort:
            cohort = train.choose(server, key)
            weight = jnp.where(cohort.ids == client, 0.0, cohort.weight)
            return cohort._replace(present=cohort.ids != client, weight=weight / jnp.sum(weight))

        return algorithm.with_training(train._replace(choose=choose))

    return build
