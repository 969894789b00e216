"""The frame of the on-policy actor-critics: one local step is one iteration (roll out, fit V, improve pi).

Actor and critic are learnt together with the other clients, and so are the statistics they see through (`filtering.py`);
optimiser states and whatever else the improvement of the actor keeps stay in the client's memory. With filters="own" the
statistics stay there, too, as in the published code of Xie & Song 2025.
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
from fedrl.local.filtering import filtering, pooling
from fedrl.local.learner import BuildLearner, Learner
from fedrl.local.minibatches import descend, mean_square, rows
from fedrl.local.steps import adam
from fedrl.policies import network
from fedrl.policies.filtered import Filtered, Filters, all_merged, filtered
from fedrl.rollouts.contact import contact
from fedrl.rollouts.episodes import Trajectory, env_steps, shapes
from fedrl.trees import Tree
from fedrl.types import Client, LocalUpdate, Policy


def actor_critic(improvement: BuildImprovement, s: ActorCritic) -> BuildLearner:
    """The learner that improves its actor so: `ppo`, `trpo` and `tac` each pass their own."""

    def build(environment: Environment | Host) -> Learner:
        plain = s.policy(environment)
        improves = improvement(plain)
        standardises = s.filter_observations and isinstance(environment.observations, Box)
        acting = filtered(plain) if standardises else plain
        size, lay_out = network.inputs(environment.observations)
        filters = filtering(size, observations=standardises, rewards=s.filter_rewards)
        pooled = s.filters == "pooled"
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
            return Theta(plain.init(keys.of(key, "actor")), critic, filters.fresh() if pooled else Filters())

        def filters_of(theta: Theta, client: Client) -> Filters:
            return theta.filters if pooled else client.memory.filters

        def acts_with(theta: Theta, client: Client) -> Tree:
            return Filtered(theta.actor, filters_of(theta, client).obs) if standardises else theta.actor

        def memory(client_id: Array, key: Key) -> Memory:
            theta, nothing = init(key), filters.fresh()
            kept: Any = ()
            if s.remember:
                parameters = Filtered(theta.actor, nothing.obs) if standardises else theta.actor
                room = shapes(environment, acting, parameters, horizon=horizon, batch=s.copies * s.remember)
                kept = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), room)
            states = improves.init(theta.actor), critic_optimiser.init(theta.critic)
            return Memory(Filters() if pooled else nothing, *states, kept)

        # the critic's network gives (1 - gamma) V, which is of a reward's size
        unit = max(1.0 - environment.gamma, 1e-3)

        def values(critic: network.Layers, obs: Any) -> Array:
            return network.forward(critic, lay_out(obs))[..., 0] / unit

        def log_pi(theta: Theta, obs: Any, choice: Any) -> Array:
            return log_likelihood(plain, theta.actor, obs, choice)

        def estimated(theta: Theta, seen: Trajectory) -> tuple[Array, Array]:
            """Advantages and values of what was seen, as the networks see it."""
            value = values(theta.critic, seen.obs)
            later = values_after(
                seen, value, lambda obs: values(theta.critic, obs) if s.bootstrap else jnp.zeros(HANDFUL)
            )
            return gae(seen, seen.reward, value, later, gamma=environment.gamma, lam=s.lam), value

        def looked_at(theta: Theta, client: Client, seen: Trajectory) -> Batch:
            """What was seen, through the filters, with advantages from the critic."""
            seen = filters.look(filters_of(theta, client), seen)
            advantage, value = estimated(theta, seen)
            log_prob = log_pi(theta, seen.obs, seen.choice)
            return Batch(*rows((seen.obs, seen.choice, log_prob, advantage, advantage + value)))

        def start(message: Any, client: Client, key: Key) -> Iterate:
            gathered = filters.fresh() if pooled else Filters()
            return Iterate(message.theta, client.memory, message, jnp.zeros((), jnp.int32), gathered)

        def after_seeing(local: Iterate, seen: Trajectory) -> Iterate:
            """Filters moved on, the oldest iteration forgotten, steps counted."""
            theta, memory, gathered = local.theta, local.memory, local.gathered
            if s.remember:
                recent = jax.tree.map(lambda old, new: jnp.concatenate([old, new])[s.copies :], memory.recent, seen)
                memory = memory._replace(recent=recent)
            if pooled:
                gathered = filters.update(gathered, seen)
                theta = theta._replace(filters=all_merged(local.message.theta.filters, gathered))
            else:
                memory = memory._replace(filters=filters.update(memory.filters, seen))
            return Iterate(theta, memory, local.message, local.env_steps + env_steps(seen), gathered)

        def estimate(local: Iterate, seen: Trajectory, client: Client, key: Key) -> tuple[Theta, Iterate]:
            """One iteration; the direction is how far it moved actor and critic."""
            theta, memory = local.theta, local.memory
            batch = looked_at(theta, client._replace(memory=memory), seen)
            critic, critic_state = descend(
                lambda critic, rows: mean_square(unit * (values(critic, rows.obs) - rows.target)),
                theta.critic, memory.critic, batch, keys.of(key, "critic"),
                optimiser=critic_optimiser, rate=s.critic_rate, epochs=s.critic_epochs, minibatch=s.critic_minibatch,
            )  # fmt: skip
            batch = batch._replace(advantage=standardised(batch.advantage))
            actor, kept = improves.improve(theta.actor, memory.actor, batch, local.message.round, keys.of(key, "actor"))
            after = after_seeing(local, seen)
            after = after._replace(memory=after.memory._replace(actor=kept, critic=critic_state))
            return trees.subtract(Theta(actor, critic), theta._replace(filters=Filters())), after

        def apply(local: Iterate, direction: Theta, client: Client) -> Iterate:
            moved = trees.add(local.theta._replace(filters=Filters()), direction)
            return local._replace(theta=moved._replace(filters=local.theta.filters))

        def finish(local: Iterate, client: Client) -> tuple[Theta, Memory, Array]:
            now, before = (theta._replace(filters=Filters()) for theta in (local.theta, local.message.theta))
            return trees.subtract(now, before)._replace(filters=local.gathered), local.memory, local.env_steps

        def loss_on_recent(theta: Theta, client: Client) -> Array:
            """Minus the mean advantage at the current policy (ratio 1, KL 0); its gradient is the policy gradient's."""
            batch = looked_at(jax.lax.stop_gradient(theta), client, client.memory.recent)
            return -surrogate(plain, theta.actor, batch)

        def recent(theta: Theta, client: Client) -> Trajectory:
            return filters.look(filters_of(theta, client), client.memory.recent)

        traced = isinstance(environment, Environment)
        local = LocalUpdate(
            start, touch.sample, estimate, apply, finish,
            max_steps=s.local_steps, traced=traced, together=touch.together, most_env_steps=horizon * s.copies,
        )  # fmt: skip
        looking = local._replace(
            estimate=lambda local, seen, client, key: ((), after_seeing(local, seen)),
            apply=lambda local, direction, client: local,
            finish=lambda local, client: (Theta((), (), local.gathered), local.memory, local.env_steps),
            max_steps=-(-s.warm_up // s.steps),
        )
        return Learner(
            acting,
            init,
            local,
            memory=memory,
            acts_with=acts_with,
            recent=recent if s.remember else None,
            log_pi=log_pi,
            advantages=(lambda theta, client: estimated(theta, recent(theta, client))[0]) if s.remember else None,
            loss=loss_on_recent if s.remember else None,
            opening=(looking,) if s.warm_up else (),
            scene=touch.scene,
            pooling=pooling,
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
