"""Acting: what a roll-out returns, and the sampler for an environment: inside the compiled program or on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.environments.protocol import Environment, Host, element
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory

MOST_STEPS = 10_000  # an episode without a time limit must end by itself within this many steps

Sampler = Callable[[Tree, Client, Key], Trajectory]  # (the policy's parameters, client, key)


def sampler(
    environment: Environment | Host, policy: Policy, *, horizon: int, batch: int, restart: bool = False
) -> Sampler:
    """`batch` rows of at most `horizon` steps. restart=True starts a new episode where one ends."""
    if environment.agents:
        raise ValueError(
            f"{environment.agents} clients share this environment, but this learner needs one environment per client; "
            "use PPO, TRPO, TAC or reinforce"
        )
    if horizon < 1 or batch < 1:
        raise ValueError(f"a roll-out needs horizon and batch of at least 1, got horizon={horizon}, batch={batch}")
    if isinstance(environment, Host):
        from fedrl.rollouts.host import rollout as on_host

        return on_host(environment, policy, horizon=horizon, batch=batch, restart=restart)
    from fedrl.rollouts.traced import rollout

    def act(theta: Tree, client: Client, key: Key) -> Trajectory:
        return rollout(
            environment, policy, theta, client.env_params, key, horizon=horizon, batch=batch, restart=restart
        )

    return act


def shapes(environment: Environment | Host, policy: Policy, theta: Tree, *, horizon: int, batch: int) -> Trajectory:
    """Shapes and dtypes of a roll-out with parameters like `theta`."""
    one = jax.ShapeDtypeStruct(*element(environment.observations))
    noise = jax.eval_shape(lambda: policy.noise(jax.random.key(0), ()))
    choice = jax.eval_shape(lambda theta, obs, n: policy.sample(policy.prepare(theta), obs, n), theta, one, noise)

    def many(like: Any) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((batch, horizon, *x.shape), x.dtype), like)

    number, flag = (jax.ShapeDtypeStruct((), kind) for kind in (jnp.float32, jnp.bool_))
    return Trajectory(many(one), many(choice), *map(many, (number, flag, flag, flag, one)))


def env_steps(trajectory: Trajectory) -> Array:
    return jnp.sum(trajectory.alive, dtype=jnp.int32)
