"""Roll-outs inside a compiled program: one `lax.scan` over time, `vmap` over the batch."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.environments.protocol import Environment, EnvironmentNoise
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Policy, Trajectory


def draw_noise(noise: EnvironmentNoise, key: Key, horizon: int, batch: int, hold: int = 1) -> Any:
    """Noise [T, B, ...], each draw held for `hold` steps."""
    count = -(-horizon // hold)
    flat = noise(key, (count * batch,))  # drawn flat: compiled and computed faster
    stack = jax.tree.map(lambda x: x.reshape(count, batch, *x.shape[1:]), flat)
    return stack if hold == 1 else jax.tree.map(lambda x: jnp.repeat(x, hold, axis=0)[:horizon], stack)


def rollout(
    environment: Environment,
    policy: Policy,
    theta: Tree,
    env_params: Tree,
    key: Key,
    *,
    horizon: int,
    batch: int,
    restart: bool = False,
) -> Trajectory:
    """`batch` rows of at most `horizon` steps: one episode each, or with `restart` one after another."""
    prepared, acting = environment.prepare(env_params), policy.prepare(theta)
    first = environment.noise(keys.of(key, "reset"), (batch,))

    moves, resets = (draw_noise(environment.noise, keys.of(key, word), horizon, batch) for word in ("move", "again"))
    acts = draw_noise(policy.noise, keys.of(key, "act"), horizon, batch, policy.hold)

    def step(
        state: Any, alive: Array, last: Array, move: Any, act: Any, new: Any
    ) -> tuple[tuple[Any, Array], Trajectory]:
        obs = environment.observe(prepared, state)
        choice = policy.sample(acting, obs, act)
        after = environment.step(prepared, state, policy.action(choice), move)
        over = after.terminated | after.truncated
        trajectory = Trajectory(
            obs=obs,
            choice=choice,
            reward=jnp.where(alive, after.reward, jnp.zeros_like(after.reward)),
            alive=alive,
            terminated=after.terminated,
            truncated=(after.truncated | last) & ~after.terminated,
            after=environment.observe(prepared, after.state),
        )
        if restart:
            return (trees.where(over, environment.reset(prepared, new), after.state), alive), trajectory
        return (after.state, alive & ~over), trajectory

    def scan_step(
        carry: tuple[Any, Array], inputs: tuple[Array, Any, Any, Any]
    ) -> tuple[tuple[Any, Array], Trajectory]:
        last, *noise = inputs
        return jax.vmap(lambda state, alive, *noise_and_reset: step(state, alive, last, *noise_and_reset))(
            *carry, *noise
        )

    start = jax.vmap(lambda n: environment.reset(prepared, n))(first)
    last = jnp.arange(horizon) == horizon - 1
    _, trajectory = jax.lax.scan(scan_step, (start, jnp.ones((batch,), bool)), (last, moves, acts, resets))
    by_row: Trajectory = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), trajectory)
    return by_row
