"""Finite Markov decision processes as arrays: the tabular environments of `wang2024` and `labbi2025`.

The parameters are an `MDP`; heterogeneous clients are a stack of them, whose rewards, kernels and starts may all differ.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import at_least, checked
from fedrl.environments.protocol import Discrete, Environment, Host, Step

NEAR_ONE = 0.9999  # from this discount on, single precision is too coarse for exact values


class MDP(NamedTuple):
    """Parameters of one environment, or with a leading axis on every field those of many."""

    kernel: Array  # [S, A, S] P(s' | s, a)
    reward: Array  # [S, A]    r(s, a)
    start: Array  # [S]       rho


class _Prepared(NamedTuple):
    kernel: Array  # [S, A, S] cumulative over s'
    reward: Array
    start: Array  # [S] cumulative


@checked
def environment(states: int, actions: int, gamma: float) -> Environment:
    """The environment of `MDP`s of these sizes. It never terminates: discounting ends an episode."""
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"gamma must lie strictly between 0 and 1, got {gamma}; a discounted task needs e.g. 0.9")
    at_least(1, states=states, actions=actions)

    def prepare(env_params: MDP) -> _Prepared:
        return _Prepared(jnp.cumsum(env_params.kernel, axis=-1), env_params.reward, jnp.cumsum(env_params.start))

    def reset(env_params: _Prepared, noise: Array) -> Array:
        return draw(env_params.start, noise)

    def step(env_params: _Prepared, state: Array, action: Array, noise: Array) -> Step:
        return Step(
            draw(env_params.kernel[state, action], noise), env_params.reward[state, action], jnp.zeros((), bool)
        )

    return Environment(
        prepare=prepare,
        reset=reset,
        step=step,
        observe=lambda env_params, state: state,
        noise=jax.random.uniform,
        observations=Discrete(states),
        actions=Discrete(actions),
        gamma=gamma,
    )


def draw(cumulative: Array, u: Array) -> Array:
    """Inverse-CDF draw: how many of the inner cumulative probabilities lie at or below u (never past the last)."""
    return jnp.sum(u >= cumulative[:-1], dtype=jnp.int32)


def average(env_params: MDP, weight: Array | None = None) -> MDP:
    """The imaginary MDP of Jin et al. 2022 and `xie2025` §2.3: the q-weighted mean of every array."""
    if weight is None:
        return MDP(*(jnp.mean(x, axis=0) for x in env_params))
    return MDP(*(jnp.tensordot(weight.astype(x.dtype), x, axes=1) for x in env_params))


def as_stack(env_params: Any) -> MDP:
    """The MDPs of a federation as a stack of arrays, from an `MDP` of arrays or lists or from a list of one per client."""
    if not isinstance(env_params, MDP):
        mdps = [_as_arrays(mdp) for mdp in env_params]
        shapes = {tuple(x.shape for x in mdp) for mdp in mdps}
        if len(shapes) > 1:
            raise ValueError(f"the clients' MDPs differ in size: {sorted(shapes)}; one policy needs the same S and A")
        env_params = jax.tree.map(lambda *rows: np.stack(rows), *mdps)
    stack = _as_arrays(env_params)
    if stack.kernel.ndim == 3:
        raise ValueError(
            f"got one MDP, with a kernel of shape {stack.kernel.shape}, expected one per client; "
            "write env_params=[mdp, other_mdp], or [mdp] * 3 for three equal clients"
        )
    return stack


def _as_arrays(env_params: MDP) -> MDP:
    return MDP(*(as_numbers(name, values) for name, values in env_params._asdict().items()))


def as_numbers(name: str, values: Any) -> Any:
    """`values` as an array of floating-point numbers, as wide as JAX's own; such an array is returned unchanged."""
    if isinstance(values, Array | np.ndarray) and jnp.issubdtype(values.dtype, jnp.floating):
        return values
    try:
        return np.asarray(values, jnp.result_type(float))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers, but conversion failed ({error}); give every row the same length"
        ) from error


def warn_near_one(what: str, gamma: float) -> None:
    """Warn that `what`, a linear solve, is inexact in single precision: rounding of kernels is divided by 1 - gamma.

    On random MDPs with five states the error of J is 3e-4 of what is left to learn at gamma = 0.999 at most, 0.3 % at 0.9999
    and 2 % at 0.99999, and that of the gradient 0.1, 1 and 7 % of its length; in double precision it is below 1e-9.
    """
    if gamma >= NEAR_ONE and jnp.result_type(float) != jnp.float64:
        warnings.warn(
            f"{what} solves linear systems, and at gamma = {gamma:g} single precision is too coarse for them; set "
            "JAX_ENABLE_X64=1 before the start, or a smaller gamma",
            stacklevel=3,
        )


def check_sizes(environment: Environment | Host, env_params: Any) -> None:
    """Refuse an `MDP` (of arrays, or of their shapes) that does not have the environment's sizes."""
    if not (isinstance(environment.observations, Discrete) and isinstance(environment.actions, Discrete)):
        return
    expected, sizes = (environment.observations.n, environment.actions.n), tuple(env_params.reward.shape[-2:])
    if expected != sizes:
        raise ValueError(
            f"the environment has {expected[0]} states and {expected[1]} actions, the MDPs have {sizes}; "
            f"write finite.environment(states={sizes[0]}, actions={sizes[-1]}, gamma=…)"
        )


def check(env_params: MDP) -> MDP:
    """`env_params` (one MDP or a stack) unchanged, or a `ValueError` that names the row that is not a distribution."""
    kernel, reward, start = (np.asarray(x) for x in env_params)
    if reward.shape != kernel.shape[:-1] or start.shape != kernel.shape[:-3] + kernel.shape[-1:]:
        raise ValueError(
            f"an MDP needs kernel [.., S, A, S], reward [.., S, A], start [.., S]; got {kernel.shape}, {reward.shape}, "
            f"{start.shape}; give every array the same leading client axis"
        )
    for name, rows in (("kernel", kernel), ("start", start)):
        total = rows.sum(-1)
        bad = np.argwhere(~(np.abs(total - 1.0) < 1e-4) | (rows < 0).any(-1))
        if len(bad):
            row = tuple(int(i) for i in bad[0])
            raise ValueError(
                f"{name} row {row} is not a distribution: it sums to {total[row]:.6g} with smallest entry "
                f"{rows[row].min():.6g}; divide each row by its sum"
            )
    if not np.isfinite(reward).all():
        row = tuple(int(i) for i in np.argwhere(~np.isfinite(reward))[0])
        raise ValueError(f"reward {row} is {reward[row]}; every reward must be a finite number, so fix or clip it")
    return env_params
