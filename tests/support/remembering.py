"""A small learner that remembers what it saw: policy gradient on a table. It compiles in seconds; PPO takes a minute."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedrl import trees
from fedrl.keys import of_seed
from fedrl.policies.softmax import softmax_table
from fedrl.rollouts.episodes import env_steps, sampler, shapes
from fedrl.types import BuildLearner, Learner, LocalUpdate


class Local(NamedTuple):
    theta: Any
    message: Any
    memory: Any


def remembering(*, eta: float = 0.5, horizon: int = 16, batch: int = 2) -> BuildLearner:
    """One step along the gradient of log pi times reward; the batch it came from is remembered."""

    def build(environment) -> Learner:
        policy = softmax_table()(environment)
        act = sampler(environment, policy, horizon=horizon, batch=batch, restart=True)
        room = shapes(environment, policy, policy.init(of_seed(0)), horizon=horizon, batch=batch)

        def log_pi(theta, obs, choice):
            return jnp.sum(policy.log_probs(theta, obs, choice), axis=-1)

        def loss(theta, trajectory):
            return -jnp.mean(log_pi(theta, trajectory.obs, trajectory.choice) * trajectory.reward)

        local = LocalUpdate(
            start=lambda message, client, key: Local(message.theta, message, client.memory),
            sample=lambda local, client, key: act(local.theta, client, key),
            estimate=lambda local, trajectory, client, key: (
                jax.grad(loss)(local.theta, trajectory), local._replace(memory=trajectory),
            ),
            apply=lambda local, slope, client: local._replace(theta=local.theta - eta * slope),
            finish=lambda local, client: (
                trees.subtract(local.theta, local.message.theta), local.memory, env_steps(local.memory),
            ),
        )  # fmt: skip
        looking = local._replace(
            apply=lambda local, slope, client: local,
            finish=lambda local, client: ((), local.memory, env_steps(local.memory)),
        )
        return Learner(
            policy,
            policy.init,
            local,
            memory=lambda client_id, key: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), room),
            recent=lambda theta, client: client.memory,
            log_pi=log_pi,
            advantages=lambda theta, client: client.memory.reward - jnp.mean(client.memory.reward),
            loss=lambda theta, client: loss(theta, client.memory),
            opening=(looking,),
        )

    return build
