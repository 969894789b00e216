"""Roll-outs in an environment that several clients share: all act at once, and it continues where the last roll-out ended.

The *shared state* is the state of that environment between two roll-outs. An episode may span several roll-outs; where it
ends, a new one starts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Environment
from fedrl.keys import Key
from fedrl.rollouts.traced import draw_noise
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory

SharedState = Any  # states of the environment, [copies, ...]


class SharedRollout(NamedTuple):
    init: Callable[[Tree, Key], SharedState]  # (env_params, key)
    sample: Callable[[Tree, Client, SharedState, Key], tuple[Trajectory, SharedState]]
    #        (stack of the policy's parameters, stack of clients, shared state, key)


def shared_rollout(environment: Environment, policy: Policy, *, horizon: int, batch: int) -> SharedRollout:
    """`batch` copies of the environment, `horizon` steps per roll-out; returns a stack of Trajectories, one per client.

    The environment has the parameters of the first client. All clients see an episode end at the same step. The last step
    of a roll-out counts as truncated, though the episode continues.
    """

    def init(env_params: Tree, key: Key) -> SharedState:
        prepared = environment.prepare(env_params)
        noise = environment.noise(keys.of(key, "reset"), (batch,))
        return jax.vmap(lambda n: environment.reset(prepared, n))(noise)

    def sample(theta: Tree, clients: Client, shared_state: SharedState, key: Key) -> tuple[Trajectory, SharedState]:
        prepared, acting = environment.prepare(_first(clients.env_params)), jax.vmap(policy.prepare)(theta)
        moves, resets = (
            draw_noise(environment.noise, keys.of(key, word), horizon, batch) for word in ("move", "again")
        )

        def noise_of(client_id: Array) -> Any:
            return draw_noise(policy.noise, keys.of(key, "act", client_id), horizon, batch, policy.hold)

        acts = jax.vmap(noise_of, out_axes=2)(clients.id)  # [T, B, m]

        def step(state: Any, last: Array, move: Any, new: Any, noise: Any) -> tuple[Any, Trajectory]:
            obs = environment.observe(prepared, state)
            choice = jax.vmap(policy.sample)(acting, obs, noise)
            after = environment.step(prepared, state, jax.vmap(policy.action)(choice), move)
            over = after.terminated | after.truncated
            terminated, truncated = (
                jnp.broadcast_to(x, after.reward.shape)
                for x in (after.terminated, (after.truncated | last) & ~after.terminated)
            )
            trajectory = Trajectory(
                obs=obs,
                choice=choice,
                reward=after.reward,
                alive=jnp.ones_like(terminated),
                terminated=terminated,
                truncated=truncated,
                after=environment.observe(prepared, after.state),
            )
            return trees.where(over, environment.reset(prepared, new), after.state), trajectory

        def scan_step(shared_state: SharedState, inputs: tuple[Array, Any, Any, Any]) -> tuple[SharedState, Trajectory]:
            last, *noise = inputs
            return jax.vmap(lambda state, *n: step(state, last, *n))(shared_state, *noise)

        last = jnp.arange(horizon) == horizon - 1
        shared_state, trajectory = jax.lax.scan(scan_step, shared_state, (last, moves, resets, acts))
        # [T, B, m] -> [m, B, T]
        return jax.tree.map(lambda x: jnp.moveaxis(x, 2, 0).swapaxes(1, 2), trajectory), shared_state

    return SharedRollout(init, sample)


def _first(env_params: Tree) -> Tree:
    return jax.tree.map(lambda x: x[0], env_params)
