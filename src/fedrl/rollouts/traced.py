"""Roll-outs inside a compiled program: one `lax.scan` over time, `vmap` over the batch."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.environments.protocol import Environment
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Policy


class Trajectory(NamedTuple):
    """A batch of episodes, [B, T] each; after an episode ends `alive` is False and the reward zero."""

    obs: Any
    choice: Any
    reward: Array
    alive: Array


def rollout(
    environment: Environment, policy: Policy, theta: Tree, world: Tree, key: Key, *, horizon: int, batch: int
) -> Trajectory:
    """`batch` episodes of at most `horizon` steps, acting with `theta`."""
    if horizon < 1 or batch < 1:
        raise ValueError(f"a roll-out wants horizon and batch of at least 1, got horizon={horizon}, batch={batch}")
    place, acting = environment.prepare(world), policy.prepare(theta)
    first = environment.noise(keys.of(key, "reset"), (batch,))
    shape, count = (horizon, batch), horizon * batch  # drawn flat: the same numbers, compiled and computed faster
    moves = environment.noise(keys.of(key, "move"), (count,)).reshape(shape)
    acts = policy.noise(keys.of(key, "act"), (count,)).reshape(shape)

    def step(state: Any, alive: Array, move: Array, act: Array) -> tuple[tuple[Any, Array], Trajectory]:
        obs = environment.observe(place, state)
        choice = policy.sample(acting, obs, act)
        after = environment.step(place, state, policy.action(choice), move)
        seen = Trajectory(obs, choice, jnp.where(alive, after.reward, jnp.zeros_like(after.reward)), alive)
        return (after.state, alive & ~after.done), seen

    def scan_step(carry: tuple[Any, Array], noise: tuple[Array, Array]) -> tuple[tuple[Any, Array], Trajectory]:
        return jax.vmap(step)(*carry, *noise)

    start = jax.vmap(lambda n: environment.reset(place, n))(first)
    _, trajectory = jax.lax.scan(scan_step, (start, jnp.ones((batch,), bool)), (moves, acts))
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), trajectory)
