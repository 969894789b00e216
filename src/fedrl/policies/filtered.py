"""Running statistics of observations and rewards, and a policy that standardises observations with them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.trees import Tree
from fedrl.types import Policy

CLIP_OBS, CLIP_REWARD = 5.0, 10.0  # in standard deviations (from the published code of `xie2025`)
SMALL = 1e-8


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of all values so far; JAX or NumPy arrays."""

    total: Any  # [] count
    mean: Any  # [n]
    squares: Any  # [n]


class Filters(NamedTuple):
    """The statistics of a learner; () for what it does not filter."""

    obs: Any = ()  # Moments
    reward: Any = ()


class Filtered(NamedTuple):
    """The parameters of a filtered policy: those of the policy inside, and the statistics of observations."""

    theta: Tree
    moments: Moments


def empty_moments(size: int) -> Moments:
    return Moments(jnp.zeros(()), jnp.zeros((size,)), jnp.zeros((size,)))


def update(moments: Moments, x: Array, weight: Array) -> Moments:
    """`moments` with the rows of x [n, size] added whose `weight` [n] is one."""
    count = jnp.sum(weight)
    mean = jnp.sum(weight[:, None] * x, axis=0) / jnp.maximum(count, 1.0)
    squares = jnp.sum(weight[:, None] * (x - mean[None, :]) ** 2, axis=0)
    return merge(moments, Moments(count, mean, squares))


def merge(some: Moments, more: Moments) -> Moments:
    """The moments of both sets of numbers together (Chan et al. 1979)."""
    total = some.total + more.total
    off = more.mean - some.mean
    share = more.total / jnp.maximum(total, 1.0)
    return Moments(total, some.mean + off * share, some.squares + more.squares + off**2 * (some.total * share))


def merge_filters(some: Filters, more: Filters) -> Filters:
    both: Filters = jax.tree.map(merge, some, more, is_leaf=lambda x: isinstance(x, Moments))
    return both


def deviation(moments: Moments) -> Any:
    """Standard deviation of each entry; one until there are two values."""
    xp = np if isinstance(moments.mean, np.ndarray) else jnp
    spread = xp.sqrt(moments.squares / xp.maximum(moments.total - 1, 1)) + SMALL
    return xp.where(moments.total > 1, spread, xp.ones_like(spread))


def standardise(moments: Moments, obs: Any) -> Any:
    """Observations [..., n] centred, scaled and clipped."""
    xp = np if isinstance(obs, np.ndarray) else jnp
    row = (1,) * (obs.ndim - 1) + moments.mean.shape
    mean, scale = moments.mean.reshape(row), deviation(moments).reshape(row)
    if xp is jnp:
        mean, scale = jnp.broadcast_to(mean, obs.shape), jnp.broadcast_to(scale, obs.shape)
    return xp.clip((obs - mean) / scale, -CLIP_OBS, CLIP_OBS)


def scale_reward(moments: Moments, reward: Array) -> Array:
    """Rewards divided by their running deviation, not centred, clipped."""
    return jnp.clip(reward / deviation(moments)[0], -CLIP_REWARD, CLIP_REWARD)


def filtered(policy: Policy) -> Policy:
    """`policy` on standardised observations; its parameters are then `Filtered`. Acting does not change the statistics."""

    mode = policy.mode

    def scaled(theta: Filtered, obs: Any) -> Any:
        return standardise(theta.moments, obs)

    def log_probs(theta: Filtered, obs: Any, choice: Any) -> Array:
        return policy.log_probs(theta.theta, scaled(theta, obs), choice)

    def tsallis(theta: Filtered, obs: Any, q: float) -> Array:
        assert policy.tsallis
        return policy.tsallis(theta.theta, scaled(theta, obs), q)

    def entropy(theta: Filtered, obs: Any) -> Array:
        assert policy.entropy
        return policy.entropy(theta.theta, scaled(theta, obs))

    def kl(theta: Filtered, other: Filtered, obs: Any) -> Array:
        assert policy.kl
        return policy.kl(theta.theta, other.theta, scaled(theta, obs))

    def host(theta: Filtered, obs: np.ndarray, noise: Any) -> tuple[Any, Any]:
        assert policy.host
        return policy.host(theta.theta, scaled(theta, obs).astype(obs.dtype), noise)

    return policy._replace(
        prepare=lambda theta: (policy.prepare(theta.theta), theta.moments),
        sample=lambda ready, obs, noise: policy.sample(ready[0], standardise(ready[1], obs), noise),
        log_probs=log_probs,
        entropy=entropy if policy.entropy else None,
        tsallis=tsallis if policy.tsallis else None,
        kl=kl if policy.kl else None,
        host=host if policy.host else None,
        mode=(lambda theta, obs: mode(theta.theta, scaled(theta, obs))) if mode else None,
        about=(policy.about or {}) | {"filter": {"clip": CLIP_OBS, "epsilon": SMALL}},
    )
