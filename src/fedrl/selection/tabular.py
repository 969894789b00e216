"""The tabular maximum-likelihood model of a client's environment (`xie2025` §4.2), from its remembered transitions.

Everything is an array over the M transitions: a state or pair is named by the first row it occurs in, so that memory and
time grow with M and not with states x actions x states.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.sparse.linalg import bicgstab

from fedrl.selection.numbering import Names, cells, find, names, number
from fedrl.types import Trajectory

TOLERANCE = 1e-7  # of the residual, relative
MOST_ITERATIONS = 200  # each of two products with P; sampled paths need 20 to 100


class Tabular(NamedTuple):
    """[M] each. Rows that hold no transition have state, pair and after M, and share 0."""

    state: Array  # number of s
    pair: Array  # number of (s, a)
    after: Array  # number of s'; M if the episode ended or s' was never left, so that its transitions are unknown
    share: Array  # 1 / C(s, a): the weight of this transition in P_hat(s'|s, a) and R_hat(s, a)
    reward: Array
    start: Array  # mu(s), by number of s
    names: Names  # of the pairs, the same at every client with the same secret; nothing else depends on the secret


def tabular(trajectory: Trajectory, rounding: float, secret: Names) -> Tabular:
    """Counts over states and actions rounded to multiples of `rounding`; finite ones are taken as they are.

    mu is the share of the episodes that begin in a state: in the first column, and wherever the step before ended one.
    """
    flat: Trajectory = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), trajectory)
    over = trajectory.terminated | trajectory.truncated
    begins = jnp.concatenate([jnp.ones_like(over[:, :1]), over[:, :-1]], axis=1).reshape(-1) & flat.alive
    of_state, after = (names(cells(x, rounding), secret) for x in (flat.obs, flat.after))
    of_pair = names(cells(flat.choice, rounding), of_state)
    state, table = number(of_state, flat.alive)
    pair, _ = number(of_pair, flat.alive)
    count = total(flat.alive.astype(jnp.float32), pair)
    starts = total(begins.astype(jnp.float32), state)
    return Tabular(
        state=state,
        pair=pair,
        after=find(table, after, flat.alive & ~flat.terminated),
        share=at(1.0 / jnp.maximum(count, 1.0), pair),
        reward=flat.reward,
        start=starts / jnp.maximum(jnp.sum(starts), 1.0),
        names=of_pair,
    )


def chances(model: Tabular, log_pi: Array) -> Array:
    """pi(a|s) P_hat(s'|s, a) of each transition, given log pi(a|s) [M]; pi is normalised over the actions seen in s."""
    size = log_pi.shape[0]
    top = jnp.full((size,), -jnp.inf).at[model.state].max(log_pi, mode="drop")
    weight = model.share * jnp.exp(log_pi - at(top, model.state))
    return weight / jnp.where(model.share > 0, at(total(weight, model.state), model.state), 1.0)


def visits(model: Tabular, chance: Array, sweeps: int) -> Array:
    """D(s) [M]: the mean of D_0 = mu, D_{t+1}(s') = sum over s, a of D_t(s) pi(a|s) P_hat(s'|s, a) over `sweeps` steps.

    It sums to one. Mass that reaches the end of an episode, or a state never left, restarts from mu.
    """
    size = chance.shape[0]

    def sweep(_: Array, so_far: Array) -> Array:
        """D_0 + ... + D_t from D_0 + ... + D_{t-1}: move everything one step on, and add mu."""
        arrived = jnp.zeros((size + 1,)).at[model.after].add(at(so_far, model.state) * chance)
        return arrived[:size] + (1.0 + arrived[size]) * model.start

    visited: Array = jax.lax.fori_loop(0, sweeps, sweep, jnp.zeros((size,))) / sweeps
    return visited


def values(model: Tabular, chance: Array, gamma: float) -> Array:
    """V(s) [M] of the model, solving V = R^pi + gamma P^pi V by BiCGStab.

    Rewards after the end of an episode and in a state never left are zero. States with one successor, which are frequent on
    sampled paths, are skipped first: plain sweeps would need hundreds to carry a reward along a path.
    """
    to, earned, discount = _jumps(model, chance, gamma)
    reward = total(chance * (model.reward + gamma * at(earned, model.after)), model.state)
    factor = gamma * chance * at(discount, model.after)
    to = at(to, model.after, nothing=chance.shape[0])

    def residual(value: Array) -> Array:
        return value - total(factor * at(value, to), model.state)

    solve: Callable[..., tuple[Array, Any]] = bicgstab  # JAX does not annotate it
    return solve(residual, reward, tol=TOLERANCE, maxiter=MOST_ITERATIONS)[0]


def advantages(model: Tabular, value: Array, gamma: float) -> Array:
    """A(s, a) = R_hat + gamma P_hat V - V [M], by number of the pair; other rows mean nothing."""
    action_value = total(model.share * (model.reward + gamma * at(value, model.after)), model.pair)
    return action_value - at(value, model.state)


def averaged(model: Tabular, advantage: Array) -> Array:
    """A(s, a) [M] as the mean of the estimates [M] along the paths through (s, a), by number of the pair."""
    return total(model.share * advantage, model.pair)


def _jumps(model: Tabular, chance: Array, gamma: float) -> tuple[Array, Array, Array]:
    """From each state to the first one with several successors: its number, the reward on the way, and the discount."""
    size = chance.shape[0]
    least = jnp.full((size,), size, jnp.int32).at[model.state].min(model.after, mode="drop")
    most = jnp.full((size,), -1, jnp.int32).at[model.state].max(model.after, mode="drop")
    sure = least == most
    to = jnp.where(sure, least, jnp.arange(size, dtype=jnp.int32))
    earned = jnp.where(sure, total(chance * model.reward, model.state), 0.0)

    def twice_as_far(_: Array, jump: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        to, earned, discount = jump
        return at(to, to, nothing=size), earned + discount * at(earned, to), discount * at(discount, to)

    start = (to, earned, jnp.where(sure, gamma, 1.0))
    jump: tuple[Array, Array, Array] = jax.lax.fori_loop(0, size.bit_length(), twice_as_far, start)
    return jump


def total(x: Array, number: Array) -> Array:
    """The sum of x over the rows of each number, [M]."""
    return jnp.zeros_like(x).at[number].add(x, mode="drop")


def at(x: Array, number: Array, nothing: float = 0) -> Array:
    """x of each row's number; `nothing` for number M."""
    return x.at[number].get(mode="fill", fill_value=nothing)
