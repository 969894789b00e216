"""Proximal policy optimisation as a local learner: one local step is one iteration (roll out, fit V, improve pi).

Actor and critic are learnt together with the other clients; optimiser states, filters and the penalty coefficient stay in
the client's memory (Xie & Song 2025, §4.2 and its published code).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Box, Environment, Host
from fedrl.keys import Key
from fedrl.local.advantage import HANDFUL, gae, standardised, values_after
from fedrl.local.learner import BuildLearner, Learner
from fedrl.local.minibatches import descend, mean_square, rows
from fedrl.local.ppo_records import PPO, Batch, Iterate, Memory, Theta
from fedrl.local.steps import adam
from fedrl.policies import filtered as filters
from fedrl.policies import network
from fedrl.policies.filtered import Filtered
from fedrl.rollouts.episodes import Trajectory, env_steps, sampler, shapes
from fedrl.trees import Tree
from fedrl.types import Client, LocalUpdate


def ppo(**settings: Any) -> BuildLearner:
    """The learner with these `PPO` settings: `ppo(steps=1024, rate=constant(1e-3))`."""
    s = PPO(**settings)

    def build(environment: Environment | Host) -> Learner:
        plain = s.policy(environment)
        if not (plain.kl and plain.entropy):
            raise ValueError("PPO wants a policy with closed-form KL and entropy; use fedrl.policies.mlp")
        kl, entropy = plain.kl, plain.entropy
        filtering = s.filter_observations and isinstance(environment.observations, Box)
        acting = filters.filtered(plain) if filtering else plain
        size, lay_out = network.inputs(environment.observations)
        critic_optimiser = adam()
        horizon = s.steps // s.copies
        act = sampler(environment, acting, horizon=horizon, batch=s.copies, restart=True)

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
            states = s.optimiser.init(theta.actor), critic_optimiser.init(theta.critic)
            return Memory(nothing, filters.nothing_seen(1), *states, jnp.ones(()), kept)

        unit = max(
            1.0 - environment.gamma, 1e-3
        )  # the critic's network gives (1 - gamma) V, which is of a reward's size

        def values(critic: network.Layers, obs: Any) -> Array:
            return network.forward(critic, lay_out(obs))[..., 0] / unit

        def through_filters(memory: Memory, seen: Trajectory) -> Trajectory:
            """As the networks see it."""
            if filtering:
                obs, after = (filters.standardise(memory.obs, x) for x in (seen.obs, seen.after))
                seen = seen._replace(obs=obs, after=after)
            return seen._replace(reward=filters.scale_reward(memory.reward, seen.reward)) if s.filter_rewards else seen

        def log_pi(theta: Theta, obs: Any, choice: Any) -> Array:
            return jnp.sum(plain.log_probs(theta.actor, obs, choice), axis=-1)

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

        def sample(local: Iterate, client: Client, key: Key) -> Trajectory:
            return act(acts_with(local.theta, client._replace(memory=local.memory)), client, key)

        def estimate(local: Iterate, seen: Trajectory, client: Client, key: Key) -> tuple[Theta, Iterate]:
            """One iteration; the direction is how far it moved actor and critic."""
            theta, memory, round = local.theta, local.memory, local.message.round
            batch = looked_at(memory, theta, seen)
            critic, critic_state = descend(
                lambda critic, rows: mean_square(unit * (values(critic, rows.obs) - rows.target)),
                theta.critic, memory.critic, batch, keys.of(key, "critic"),
                optimiser=critic_optimiser, rate=s.critic_rate, epochs=s.critic_epochs, minibatch=s.critic_minibatch,
            )  # fmt: skip
            batch = batch._replace(advantage=standardised(batch.advantage))

            def loss(actor: Tree, rows: Batch) -> Array:
                ratio = jnp.exp(log_pi(theta._replace(actor=actor), rows.obs, rows.choice) - rows.log_prob)
                moved = kl(theta.actor, actor, rows.obs)
                gain = jnp.mean(s.trust.objective(ratio, rows.advantage, moved, memory.beta))
                return -gain - s.entropy(round) * jnp.mean(entropy(actor, rows.obs))

            actor, actor_state = descend(
                loss, theta.actor, memory.actor, batch, keys.of(key, "actor"),
                optimiser=s.optimiser, rate=s.rate(round), epochs=s.epochs, minibatch=s.minibatch,
            )  # fmt: skip
            beta = s.trust.adapt(memory.beta, jnp.mean(kl(theta.actor, actor, batch.obs)), jnp.max(batch.advantage))
            memory = remembering(memory, seen)._replace(actor=actor_state, critic=critic_state, beta=beta)
            after = local._replace(memory=memory, env_steps=local.env_steps + env_steps(seen))
            return trees.subtract(Theta(actor, critic), theta), after

        def apply(local: Iterate, direction: Theta, client: Client) -> Iterate:
            return local._replace(theta=trees.add(local.theta, direction))

        def finish(local: Iterate, client: Client) -> tuple[Theta, Memory, Array]:
            return trees.subtract(local.theta, local.message.theta), local.memory, local.env_steps

        def loss_on_recent(theta: Theta, client: Client) -> Array:
            """Minus the mean advantage at the current policy (ratio 1, KL 0); its gradient is the policy gradient's."""
            batch = looked_at(client.memory, jax.lax.stop_gradient(theta), client.memory.recent)
            ratio = jnp.exp(log_pi(theta, batch.obs, batch.choice) - batch.log_prob)
            return -jnp.mean(ratio * batch.advantage)

        traced = isinstance(environment, Environment)
        local = LocalUpdate(start, sample, estimate, apply, finish, max_steps=s.local_steps, traced=traced)
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
        )

    return build
