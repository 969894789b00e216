"""What a client reports of its local steps: running means that a learner carries in its local state.

A learner starts from `nothing(names)`, adds what each local step measured, and reports `means`. A number that is not finite
counts as not measured; where nothing was measured the mean is NaN, which nobody averages.

XLA compiles a report together with the training it is about. So that training keeps its bits a report only uses what the
loops of training take in or give out, set `aside` by a barrier; tests compare parameters with and without it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.types import Metrics, Trajectory

EPISODES = ("episode_return", "episode_length")
T = TypeVar("T")
WEIGHTS = ("largest_weight", "effective_share")


class Barrier(Protocol):
    """The same values; XLA does not move computation across."""

    def __call__(self, values: T, /) -> T: ...


aside: Barrier = jax.lax.optimization_barrier


class Mean(NamedTuple):
    """A mean under way; float32."""

    total: Array
    times: Array  # how often it was measured


Report = dict[str, Mean]


def nothing(names: Iterable[str]) -> Report:
    """The means before the first local step."""
    return {name: Mean(jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32)) for name in names}


def measured(values: Mapping[str, Array | float]) -> Report:
    """The numbers of one local step, each counted once if it is finite."""

    def once(number: Array | float) -> Mean:
        value = jnp.asarray(number, jnp.float32)
        finite = jnp.isfinite(value)
        return Mean(jnp.where(finite, value, jnp.zeros_like(value)), finite.astype(jnp.float32))

    return {name: once(value) for name, value in values.items()}


def added(report: Report, step: Report) -> Report:
    """`report` with the numbers of another local step, which must have the same names."""
    if report.keys() != step.keys():
        raise ValueError(
            f"a local step measured {sorted(step)} where its learner announced {sorted(report)}; "
            "`reports` must name exactly what is returned"
        )
    return {name: Mean(*(a + b for a, b in zip(report[name], step[name], strict=True))) for name in report}


def means(report: Report) -> Metrics:
    """Each total by its count: the mean over local steps, or over episodes where these were counted."""
    return {name: total / times for name, (total, times) in report.items()}


def ended_episodes(trajectory: Trajectory, *, goes_on: bool = False) -> Report:
    """Mean return (undiscounted, as the world gave it) and length of the episodes that ended, in rows of several.

    An episode ends where the task is over or its time is up. Time that is up at the last step of a row cannot be told from
    the row's own end and does not count. With `goes_on` a row may open in the middle of an episode, which is left out. If
    none ended both are NaN.
    """
    ends = (trajectory.terminated | jnp.asarray(trajectory.truncated).at[:, -1].set(False)) & trajectory.alive
    last_end = jax.lax.cummax(ends.astype(jnp.int32), axis=1, reverse=True)  # 1 up to the last end of the row
    counted, count = last_end, jnp.sum(ends)
    if goes_on:
        so_far = jax.lax.cummax(ends.astype(jnp.int32), axis=1)
        after_first = jnp.concatenate([jnp.zeros_like(so_far[:, :1]), so_far[:, :-1]], axis=1)
        counted, count = last_end * after_first, count - jnp.sum(jnp.any(ends, axis=1))
    return _episodes(trajectory, counted.astype(jnp.float32), count)


def first_episodes(trajectory: Trajectory) -> Report:
    """Mean return (undiscounted) and length of rows of one episode each, over by then or not."""
    return _episodes(trajectory, jnp.ones_like(trajectory.reward, jnp.float32), jnp.asarray(trajectory.reward.shape[0]))


def _episodes(trajectory: Trajectory, counted: Array, count: Array) -> Report:
    earned = jnp.sum(counted * trajectory.reward.astype(jnp.float32))
    steps = jnp.sum(counted * trajectory.alive.astype(jnp.float32))
    return {name: Mean(total, count.astype(jnp.float32)) for name, total in zip(EPISODES, (earned, steps), strict=True)}


def critic_fit(target: Array, old: Array, new: Array, *, unit: float = 1.0) -> Metrics:
    """`old` and `new` are V before and after it was fitted to `target`.

    value_loss is what the critic descends, the mean square of unit (new - target). explained_variance is
    1 - Var(target - old) / Var(target): 1 if the V that judged the actor was perfect, 0 if it was constant.
    """
    return {
        "value_loss": jnp.mean(jnp.square(unit * (new - target))),
        "explained_variance": 1.0 - jnp.var(target - old) / jnp.var(target),
    }


def importance(weight: Array) -> Metrics:
    """Of importance weights [n]: the largest, and the effective sample size (sum w)^2 / sum w^2 as a share of n."""
    effective = jnp.square(jnp.sum(weight)) / (weight.shape[0] * jnp.sum(jnp.square(weight)))
    return {"largest_weight": jnp.max(weight), "effective_share": effective}
