"""Running statistics (`Filters`) by which an actor-critic standardises observations and scales rewards.

The statistics are pooled by default: clients upload those gathered since the last broadcast; the server adds them up and
sends the sum. A client that has not trained yet, or was never in the federation, uses the same filters.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedrl.aggregation.moments import pool
from fedrl.learners.minibatches import rows
from fedrl.policies import filtered as filters
from fedrl.policies import network
from fedrl.policies.filtered import Filters, Moments
from fedrl.trees import Tree
from fedrl.types import Cohort, Combine, Pooling, Trajectory, add_displacement


class Theta(NamedTuple):
    """What travels: the parameters, and statistics of what all clients have seen.

    In a displacement: statistics of what this client has seen since the broadcast.
    """

    actor: Tree
    critic: network.Layers
    filters: Filters = Filters()  # empty if every client keeps its own


class Filtering(NamedTuple):
    fresh: Callable[[], Filters]  # before the first observation
    look: Callable[[Filters, Trajectory], Trajectory]  # a roll-out as the networks see it
    update: Callable[[Filters, Trajectory], Filters]  # with a roll-out added


def filtering(size: int, *, observations: bool, rewards: bool) -> Filtering:
    """Filters of observations of `size` numbers and of rewards, each only if requested."""

    def fresh() -> Filters:
        return Filters(filters.empty_moments(size) if observations else (), filters.empty_moments(1) if rewards else ())

    def look(statistics: Filters, trajectory: Trajectory) -> Trajectory:
        if isinstance(statistics.obs, Moments):
            obs, after = (filters.standardise(statistics.obs, x) for x in (trajectory.obs, trajectory.after))
            trajectory = trajectory._replace(obs=obs, after=after)
        if isinstance(statistics.reward, Moments):
            trajectory = trajectory._replace(reward=filters.scale_reward(statistics.reward, trajectory.reward))
        return trajectory

    def update(statistics: Filters, trajectory: Trajectory) -> Filters:
        weight = rows(trajectory.alive).astype(jnp.float32)
        obs, reward = statistics
        if isinstance(obs, Moments):
            obs = filters.update(obs, rows(trajectory.obs), weight)
        if isinstance(reward, Moments):
            reward = filters.update(reward, rows(trajectory.reward)[:, None], weight)
        return Filters(obs, reward)

    return Filtering(fresh, look, update)


def _combine(uploads: Theta, cohort: Cohort, rule: Combine) -> Theta:
    theta: Theta = rule(uploads._replace(filters=Filters()), cohort)
    statistics: Filters = jax.tree.map(
        lambda x: pool(x, cohort, rule), uploads.filters, is_leaf=lambda x: isinstance(x, Moments)
    )
    return theta._replace(filters=statistics)


def _add(theta: Theta, aggregate: Theta, step: float) -> Theta:
    actor, critic = (add_displacement(*part, step) for part in zip(theta[:2], aggregate[:2], strict=True))
    return Theta(actor, critic, filters.merge_filters(theta.filters, aggregate.filters))


# actor and critic are displaced as the server's rule says; statistics are added as they are
pooling = Pooling(
    _combine,
    _add,
    displacement=lambda aggregate: aggregate._replace(filters=Filters()),
    moving=lambda aggregate, displacement: displacement._replace(filters=aggregate.filters),
)
