"""The frame of the on-policy actor-critics: one local step is one iteration (roll out, fit V, improve pi).

Actor and critic are learnt together with the other clients; filters, optimiser states and whatever else the improvement
of the actor keeps stay in the client's memory (Xie & Song 2025, §4.2 and its published code).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Box, Environment, Host
from fedrl.keys import Key
from fedrl.local.actor_critic_records import ActorCritic, Batch, BuildImprovement, Iterate, Memory, Theta
from fedrl.local.advantage import HANDFUL, gae, standardised, values_after
from fedrl.local.learner import BuildLearner, Learner
from fedrl.local.minibatches import descend, mean_square, rows
from fedrl.local.steps import adam
from fedrl.policies import filtered as filters
from fedrl.policies import network
from fedrl.policies.filtered import Filtered
from fedrl.rollouts.contact import contact
from fedrl.rollouts.episodes import Trajectory, env_steps, shapes
from fedrl.trees import Tree
from fedrl.types import Client, LocalUpdate, Policy


def actor_critic(improvement: BuildImprovement, s: ActorCritic) -> BuildLearner:
    """The learner that improves its actor so: `ppo`, `trpo` and `tac` each pass their own."""

    def build(environment: Environment | Host) -> Learner:
        plain = s.policy(environment)
        improves = improvement(plain)
        filtering = s.filter_observations and isinstance(environment.observations, Box)
        acting = filters.filtered(plain) if filtering else plain
        size, lay_out = network.inputs(environment.observations)
        critic_optimiser = adam()
        horizon = s.steps // s.copies
        touch = contact(
            environment,
            acting,
            lambda local, client: acts_with(local.theta, client._replace(memory=local.memory)),
            horizon=horizon,
            batch=s.copies,
            restart=True,
        )

        def init(key: Key) -> Theta:
            critic = network.init(keys.of(key, "critic"), (size, *s.value, 1))
            return Theta(plain.init(keys.of(key, "actor")), critic)

        def acts_with(theta: Theta, client: Client) -> Tree:
            return Filtered(theta.actor, client.memory.obs) if filtering else theta.actor

        def memory(client_id: Array, key: Key) -> Memory:
            theta, nothing = init(key), filters.nothing_seen(size)
            kept: Any = ()
            if s.remember:
                parameters = Filtered(theta.actor, nothing) if filtering else theta.actor
                room = shapes(environment, acting, parameters, horizon=horizon, batch=s.copies * s.remember)
                kept = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), room)
            states = improves.init(theta.actor), critic_optimiser.init(theta.critic)
            return Memory(nothing, filters.nothing_seen(1), *states, kept)

        # the critic's network gives (1 - gamma) V, which is of a reward's size
        unit = max(1.0 - environment.gamma, 1e-3)

        def values(critic: network.Layers, obs: Any) -> Array:
            return network.forward(critic, lay_out(obs))[..., 0] / unit

        def through_filters(memory: Memory, seen: Trajectory) -> Trajectory:
            """As the networks see it."""
            if filtering:
                obs, after = (filters.standardise(memory.obs, x) for x in (seen.obs, seen.after))
                seen = seen._replace(obs=obs, after=after)
            return seen._replace(reward=filters.scale_reward(memory.reward, seen.reward)) if s.filter_rewards else seen

        def log_pi(theta: Theta, obs: Any, choice: Any) -> Array:
            return log_likelihood(plain, theta.actor, obs, choice)

        def estimated(theta: Theta, seen: Trajectory) -> tuple[Array, Array]:
            """Advantages and values of what was seen, as the networks see it."""
            value = values(theta.critic, seen.obs)
            later = values_after(
                seen, value, lambda obs: values(theta.critic, obs) if s.bootstrap else jnp.zeros(HANDFUL)
            )
            return gae(seen, seen.reward, value, later, gamma=environment.gamma, lam=s.lam), value

        def looked_at(memory: Memory, theta: Theta, seen: Trajectory) -> Batch:
            """What was seen, through the client's filters, with advantages from its critic."""
            seen = through_filters(memory, seen)
            advantage, value = estimated(theta, seen)
            log_prob = log_pi(theta, seen.obs, seen.choice)
            return Batch(*rows((seen.obs, seen.choice, log_prob, advantage, advantage + value)))

        def remembering(memory: Memory, seen: Trajectory) -> Memory:
            """The memory after these steps: filters moved on, the oldest iteration forgotten."""
            weight = rows(seen.alive).astype(jnp.float32)
            recent = memory.recent
            if s.remember:
                recent = jax.tree.map(lambda old, new: jnp.concatenate([old, new])[s.copies :], recent, seen)
            return memory._replace(
                obs=filters.update(memory.obs, rows(seen.obs), weight) if filtering else memory.obs,
                reward=filters.update(memory.reward, rows(seen.reward)[:, None], weight),
                recent=recent,
            )

        def start(message: Any, client: Client, key: Key) -> Iterate:
            return Iterate(message.theta, client.memory, message, jnp.zeros((), jnp.int32))

        def estimate(local: Iterate, seen: Trajectory, client: Client, key: Key) -> tuple[Theta, Iterate]:
            """One iteration; the direction is how far it moved actor and critic."""
            theta, memory = local.theta, local.memory
            batch = looked_at(memory, theta, seen)
            critic, critic_state = descend(
                lambda critic, rows: mean_square(unit * (values(critic, rows.obs) - rows.target)),
                theta.critic, memory.critic, batch, keys.of(key, "critic"),
                optimiser=critic_optimiser, rate=s.critic_rate, epochs=s.critic_epochs, minibatch=s.critic_minibatch,
            )  # fmt: skip
            batch = batch._replace(advantage=standardised(batch.advantage))
            actor, kept = improves.improve(theta.actor, memory.actor, batch, local.message.round, keys.of(key, "actor"))
            memory = remembering(memory, seen)._replace(actor=kept, critic=critic_state)
            after = local._replace(memory=memory, env_steps=local.env_steps + env_steps(seen))
            return trees.subtract(Theta(actor, critic), theta), after

        def apply(local: Iterate, direction: Theta, client: Client) -> Iterate:
            return local._replace(theta=trees.add(local.theta, direction))

        def finish(local: Iterate, client: Client) -> tuple[Theta, Memory, Array]:
            return trees.subtract(local.theta, local.message.theta), local.memory, local.env_steps

        def loss_on_recent(theta: Theta, client: Client) -> Array:
            """Minus the mean advantage at the current policy (ratio 1, KL 0); its gradient is the policy gradient's."""
            batch = looked_at(client.memory, jax.lax.stop_gradient(theta), client.memory.recent)
            return -surrogate(plain, theta.actor, batch)

        traced = isinstance(environment, Environment)
        local = LocalUpdate(
            start, touch.sample, estimate, apply, finish,
            max_steps=s.local_steps, traced=traced, together=touch.together,
        )  # fmt: skip
        looking = local._replace(
            estimate=lambda local, seen, client, key: (
                (), local._replace(memory=remembering(local.memory, seen), env_steps=local.env_steps + env_steps(seen))
            ),
            apply=lambda local, direction, client: local,
            finish=lambda local, client: ((), local.memory, local.env_steps),
            max_steps=-(-s.warm_up // s.steps),
        )  # fmt: skip
        return Learner(
            acting,
            init,
            local,
            memory=memory,
            acts_with=acts_with,
            recent=(lambda memory: through_filters(memory, memory.recent)) if s.remember else None,
            log_pi=log_pi,
            advantages=(lambda theta, client: estimated(theta, through_filters(client.memory, client.memory.recent))[0])
            if s.remember
            else None,
            loss=loss_on_recent if s.remember else None,
            opening=(looking,) if s.warm_up else (),
            scene=touch.scene,
        )

    return build


def log_likelihood(policy: Policy, actor: Tree, obs: Any, choice: Any) -> Array:
    return jnp.sum(policy.log_probs(actor, obs, choice), axis=-1)


def ratio(policy: Policy, actor: Tree, batch: Batch) -> Array:
    """rho: how much likelier the actor makes each choice of the batch than the one who made it."""
    return jnp.exp(log_likelihood(policy, actor, batch.obs, batch.choice) - batch.log_prob)


def surrogate(policy: Policy, actor: Tree, batch: Batch) -> Array:
    """Mean of rho A; its gradient where rho is one is the policy gradient (Schulman et al. 2015, Eq. 14)."""
    return jnp.mean(ratio(policy, actor, batch) * batch.advantage)
