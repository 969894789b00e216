"""Roll-outs in a world where several clients meet: all act at once, and it goes on where the last roll-out left it.

The world between two roll-outs is the *scene*; an epoch may span several, and a new one begins where it ends.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Environment
from fedrl.keys import Key
from fedrl.rollouts.traced import drawn
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory

SharedState = Any  # states of the world, [copies, ...]


class Meeting(NamedTuple):
    begin: Callable[[Tree, Key], SharedState]  # (world, key)
    act: Callable[
        [Tree, Client, SharedState, Key], tuple[Trajectory, SharedState]
    ]  # (stack of the policy's parameters, ...)


def meeting(environment: Environment, policy: Policy, *, horizon: int, batch: int) -> Meeting:
    """`batch` copies of the world, `horizon` steps a roll-out. What is seen is a stack of Trajectories, one a client.

    All clients are in the world of the first. Whether a world ends is told to all of them; the last step of a roll-out
    counts as cut, though the world goes on.
    """

    def begin(env_params: Tree, key: Key) -> SharedState:
        place = environment.prepare(env_params)
        noise = environment.noise(keys.of(key, "reset"), (batch,))
        return jax.vmap(lambda n: environment.reset(place, n))(noise)

    def act(theta: Tree, clients: Client, shared_state: SharedState, key: Key) -> tuple[Trajectory, SharedState]:
        place, acting = environment.prepare(_first(clients.env_params)), jax.vmap(policy.prepare)(theta)
        moves, again = (drawn(environment.noise, keys.of(key, word), horizon, batch) for word in ("move", "again"))

        def draw_noise(client_id: Array) -> Any:
            return drawn(policy.noise, keys.of(key, "act", client_id), horizon, batch, policy.hold)

        acts = jax.vmap(draw_noise, out_axes=2)(clients.id)  # [T, B, m]

        def step(state: Any, last: Array, move: Any, new: Any, noise: Any) -> tuple[Any, Trajectory]:
            obs = environment.observe(place, state)
            choice = jax.vmap(policy.sample)(acting, obs, noise)
            after = environment.step(place, state, jax.vmap(policy.action)(choice), move)
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
                after=environment.observe(place, after.state),
            )
            return trees.where(over, environment.reset(place, new), after.state), trajectory

        def scan_step(shared_state: SharedState, now: tuple[Array, Any, Any, Any]) -> tuple[SharedState, Trajectory]:
            last, *noise = now
            return jax.vmap(lambda state, *n: step(state, last, *n))(shared_state, *noise)

        last = jnp.arange(horizon) == horizon - 1
        shared_state, trajectory = jax.lax.scan(scan_step, shared_state, (last, moves, again, acts))
        return jax.tree.map(
            lambda x: jnp.moveaxis(x, 2, 0).swapaxes(1, 2), trajectory
        ), shared_state  # [T, B, m] -> [m, B, T]

    return Meeting(begin, act)


def _first(env_params: Tree) -> Tree:
    return jax.tree.map(lambda x: x[0], env_params)
