"""The metrics of a client's local steps: running means that a learner carries in its local state.

A learner starts from `nothing(names)`, adds the measurements of each local step, and reports `means`. A number that is not
finite counts as not measured. Without any measurement the mean is NaN, which the server leaves out of its averages.

XLA compiles a report together with the training it describes. To leave the bits of training unchanged, a report uses only
inputs and outputs of the training loops, set `aside` by a barrier; tests compare parameters with and without reports.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.types import Metrics, Trajectory

EPISODES = ("episode_return", "episode_length")
T = TypeVar("T")
WEIGHTS = ("mean_weight", "largest_weight", "effective_share")


class Barrier(Protocol):
    """The same values; XLA does not move computation across."""

    def __call__(self, values: T, /) -> T: ...


aside: Barrier = jax.lax.optimization_barrier


class Mean(NamedTuple):
    """A running mean; float32."""

    total: Array
    times: Array  # how often it was measured


Report = dict[str, Mean]


def nothing(names: Iterable[str]) -> Report:
    """The means before the first local step."""
    return {name: Mean(jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32)) for name in names}


def measured(values: Mapping[str, Array | float]) -> Report:
    """The numbers of one local step, each counted once if it is finite."""

    def as_mean(number: Array | float) -> Mean:
        value = jnp.asarray(number, jnp.float32)
        finite = jnp.isfinite(value)
        return Mean(jnp.where(finite, value, jnp.zeros_like(value)), finite.astype(jnp.float32))

    return {name: as_mean(value) for name, value in values.items()}


def added(report: Report, step: Report) -> Report:
    """`report` with the numbers of another local step, which must have the same names."""
    if report.keys() != step.keys():
        raise ValueError(
            f"a local step measured {sorted(step)} where its learner announced {sorted(report)}; "
            "`reports` must name exactly what is returned"
        )
    return {name: Mean(*(a + b for a, b in zip(report[name], step[name], strict=True))) for name in report}


def means(report: Report) -> Metrics:
    """Each total divided by its count: the mean over local steps, or over episodes where episodes are counted."""
    return {name: total / times for name, (total, times) in report.items()}


def ended_episodes(trajectory: Trajectory, *, goes_on: bool = False) -> Report:
    """Mean return (undiscounted, as the environment paid it) and length of the episodes that ended, in rows of several.

    An episode ends where it is terminated or truncated. A truncation at the last step of a row cannot be told from the end
    of the row and does not count. With `goes_on`, a row may begin in the middle of an episode, which is left out. If no
    episode ended, both are NaN.
    """
    ends = (trajectory.terminated | jnp.asarray(trajectory.truncated).at[:, -1].set(False)) & trajectory.alive
    last_end = jax.lax.cummax(ends.astype(jnp.int32), axis=1, reverse=True)  # 1 up to the last end of the row
    mask, count = last_end, jnp.sum(ends)
    if goes_on:
        ends_before = jax.lax.cummax(ends.astype(jnp.int32), axis=1)
        after_first = jnp.concatenate([jnp.zeros_like(ends_before[:, :1]), ends_before[:, :-1]], axis=1)
        mask, count = last_end * after_first, count - jnp.sum(jnp.any(ends, axis=1))
    return _episodes(trajectory, mask.astype(jnp.float32), count)


def first_episodes(trajectory: Trajectory) -> Report:
    """Mean return (undiscounted) and length of rows of one episode each, whether it has ended or not."""
    return _episodes(trajectory, jnp.ones_like(trajectory.reward, jnp.float32), jnp.asarray(trajectory.reward.shape[0]))


def _episodes(trajectory: Trajectory, mask: Array, count: Array) -> Report:
    returns = jnp.sum(mask * trajectory.reward.astype(jnp.float32))
    steps = jnp.sum(mask * trajectory.alive.astype(jnp.float32))
    return {
        name: Mean(total, count.astype(jnp.float32)) for name, total in zip(EPISODES, (returns, steps), strict=True)
    }


def critic_fit(target: Array, old: Array, new: Array, *, unit: float = 1.0) -> Metrics:
    """`old` and `new` are V before and after it was fitted to `target`.

    value_loss is the loss that the critic minimises, the mean square of unit (new - target). explained_variance is
    1 - Var(target - old) / Var(target): 1 if the V that judged the actor was perfect, 0 if it was constant.
    """
    return {
        "value_loss": jnp.mean(jnp.square(unit * (new - target))),
        "explained_variance": 1.0 - jnp.var(target - old) / jnp.var(target),
    }


def importance(weight: Array) -> Metrics:
    """Mean and largest of the importance weights [n], and their effective sample size (sum w)^2 / sum w^2 as a share of n.

    The share of one weight is 1, however small it is; its mean shows that weights vanish.
    """
    effective = jnp.square(jnp.sum(weight)) / (weight.shape[0] * jnp.sum(jnp.square(weight)))
    return {"mean_weight": jnp.mean(weight), "largest_weight": jnp.max(weight), "effective_share": effective}
