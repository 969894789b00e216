"""Sampled Bellman residual with a generative model: Fed-Q-learning / QAvg (Jin et al. 2022; Labbi et al. 2025, App. H)."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.arguments import at_least, checked
from fedrl.environments.protocol import Environment, Step, finite_sizes
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, Direction
from fedrl.policies.kinds import kind_of
from fedrl.trees import Tree
from fedrl.types import Client, Policy


@checked
def q_learning(*, samples: int, unsampled: Literal["keep", "decay"] = "keep") -> BuildDirection:
    """Mean residual r + gamma max Q(s') - Q(s, a) of `samples` uniformly drawn pairs; repeated pairs are averaged.

    Pairs that were not drawn keep their value; unsampled="decay" pulls them to zero, as the published code does.
    """
    at_least(1, samples=samples)

    def build(environment: Environment, policy: Policy) -> Direction:
        states, actions = finite_sizes(environment)
        theta = jax.eval_shape(lambda: policy.init(keys.of_seed(0)))
        if getattr(theta, "shape", None) != (states, actions) or kind_of(policy) == "probability-table":
            raise ValueError(
                f"q_learning learns a table of action values [{states}, {actions}], got a policy with other parameters "
                f"({kind_of(policy) or 'of your own'}); give policy=greedy_table()"
            )

        def sample(q: Array, message: Tree, client: Client, key: Key) -> tuple[Array, Step]:
            env_params = environment.prepare(client.env_params)
            pair = jax.random.randint(keys.of(key, "pair"), (samples,), 0, states * actions)
            noise = environment.noise(keys.of(key, "move"), (samples,))
            return pair, jax.vmap(lambda p, n: environment.step(env_params, p // actions, p % actions, n))(pair, noise)

        def learn(
            q: Array, message: Tree, trajectory: tuple[Array, Step], client: Client, key: Key
        ) -> tuple[Array, Array]:
            pair, step = trajectory
            target = step.reward + environment.gamma * jnp.max(q, axis=-1)[step.state]
            one_hot = jax.nn.one_hot(pair, states * actions, dtype=q.dtype)
            count = jnp.sum(one_hot, axis=0)
            mean_target = (jnp.sum(one_hot * target[:, None], axis=0) / jnp.maximum(count, 1.0)).reshape(q.shape)
            residual = mean_target - q
            if unsampled == "keep":
                residual = jnp.where(count.reshape(q.shape) > 0, residual, jnp.zeros_like(q))
            return residual, jnp.asarray(samples, jnp.int32)

        return Direction(sample, learn)

    return build
