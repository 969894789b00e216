"""Neural policies: categorical for finite actions, Gaussian for arrays of actions, and `mlp`, which picks the right one."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.arguments import at_least, checked
from fedrl.environments.protocol import Box, Discrete, Environment, Host, MultiDiscrete
from fedrl.environments.tabular.finite import draw
from fedrl.keys import Key
from fedrl.policies import network
from fedrl.policies.multi_categorical import multi_categorical_mlp
from fedrl.policies.network import Layers
from fedrl.types import BuildPolicy, Policy

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@checked
def mlp(*hidden: int, last: float = 1.0) -> BuildPolicy:
    """The policy that fits the environment's actions: `categorical_mlp`, `multi_categorical_mlp` or `gaussian_mlp`."""
    network.check_hidden(hidden)
    kinds = {Discrete: categorical_mlp, MultiDiscrete: multi_categorical_mlp, Box: gaussian_mlp}

    def build(environment: Environment | Host) -> Policy:
        return kinds[type(environment.actions)](*hidden, last=last)(environment)

    return build


@checked
def categorical_mlp(*hidden: int, last: float = 1.0) -> BuildPolicy:
    """Softmax over the outputs of a network with these tanh layers (`wang2024`, App. E.2: 8, 8 for CartPole)."""
    network.check_hidden(hidden)

    def build(environment: Environment | Host) -> Policy:
        if not isinstance(environment.actions, Discrete):
            raise ValueError(
                f"a categorical policy needs finite actions, got {environment.actions}; use gaussian_mlp or mlp"
            )
        size, lay_out = network.inputs(environment.observations)
        sizes = (size, *hidden, environment.actions.n)

        def log_softmax(theta: Layers, obs: Any) -> Array:
            return jax.nn.log_softmax(network.forward(theta, lay_out(obs)))

        def log_probs(theta: Layers, obs: Any, choice: Array) -> Array:
            return jnp.take_along_axis(log_softmax(theta, obs), choice[..., None], axis=-1)

        def sample(theta: Layers, obs: Any, u: Array) -> Array:
            return draw(jnp.cumsum(jnp.exp(log_softmax(theta, obs))), u)

        def host(theta: Layers, obs: np.ndarray, u: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            logits = network.forward(theta, lay_out(obs))
            if u is None:
                choice = np.argmax(logits, axis=-1).astype(np.int32)
                return choice, choice
            weight = np.exp(logits - logits.max(-1, keepdims=True))
            cumulative = np.cumsum(weight, axis=-1)
            choice = np.sum(u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1], axis=-1).astype(np.int32)
            return choice, choice

        def kl(theta: Layers, other: Layers, obs: Any) -> Array:
            mine = log_softmax(theta, obs)
            return jnp.sum(jnp.exp(mine) * (mine - log_softmax(other, obs)), axis=-1)

        def tsallis(theta: Layers, obs: Any, q: float) -> Array:
            mine = log_softmax(theta, obs)
            # p ln_q(p) = p^q ln_{2-q}(p); only the one with the larger index has no overflow
            return -jnp.sum(jnp.exp(min(q, 1.0) * mine) * _log_q(mine, max(q, 2.0 - q)), axis=-1)

        return Policy(
            init=lambda key: network.init(key, sizes, last),
            prepare=lambda theta: theta,
            noise=jax.random.uniform,
            sample=sample,
            action=lambda choice: choice,
            log_probs=log_probs,
            entropy=lambda theta, obs: tsallis(theta, obs, 1.0),
            tsallis=tsallis,
            kl=kl,
            host=host,
            mode=lambda theta, obs: jnp.argmax(network.forward(theta, lay_out(obs)), axis=-1).astype(jnp.int32),
            actions=environment.actions.n,
            about={"kind": "categorical-mlp", "layers": list(sizes), "activation": network.ACTIVATION},
        )

    return build


class Gaussian(NamedTuple):
    """Parameters of a Gaussian policy; the spread does not depend on the state."""

    layers: Layers
    log_std: Array  # [actions]


@checked
def gaussian_mlp(*hidden: int, last: float = 1.0, log_std: float = 0.0, hold: int = 1) -> BuildPolicy:
    """A network computes the mean action; one log standard deviation per action is learnt beside it.

    With `hold` > 1 the deviation from the mean stays the same for that many steps: exploration pushes in one direction for
    a while, where independent noise would cancel out. Each action still has the probability that `log_probs` computes.

    The drawn action goes to the environment unchanged; the environment applies its bounds.
    """
    network.check_hidden(hidden)
    at_least(1, "1 draws new noise at every step", hold=hold)

    def build(environment: Environment | Host) -> Policy:
        if not isinstance(environment.actions, Box):
            raise ValueError(
                f"a Gaussian policy needs actions that are arrays, got {environment.actions}; use categorical_mlp or mlp"
            )
        count, shape = environment.actions.size, environment.actions.shape
        size, lay_out = network.inputs(environment.observations)

        def init(key: Key) -> Gaussian:
            return Gaussian(network.init(key, (size, *hidden, count), last), jnp.full((count,), log_std, jnp.float32))

        def mean(theta: Gaussian, obs: Any) -> Any:
            return network.forward(theta.layers, lay_out(obs))

        def deviation(theta: Gaussian, centre: Array, choice: Array) -> Array:
            return (choice - centre) / _like(jnp.exp(theta.log_std), centre)

        def log_probs(theta: Gaussian, obs: Any, choice: Array) -> Array:
            off = deviation(theta, mean(theta, obs), choice)
            return jnp.sum(-0.5 * off**2 - _like(theta.log_std, off) - LOG_SQRT_2PI, axis=-1, keepdims=True)

        def host(theta: Gaussian, obs: np.ndarray, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            centre = mean(theta, obs)
            choice = centre if noise is None else centre + np.exp(theta.log_std) * noise
            return choice, choice.reshape(-1, *shape)

        def kl(theta: Gaussian, other: Gaussian, obs: Any) -> Array:
            off = deviation(other, mean(other, obs), mean(theta, obs))
            ratio = _like(theta.log_std - other.log_std, off)
            return jnp.sum(0.5 * (jnp.exp(2 * ratio) + off**2 - 1) - ratio, axis=-1)

        def tsallis(theta: Gaussian, obs: Any, q: float) -> Array:
            width = 0.5 if q == 1 else 0.5 * math.log(q) / (q - 1)
            renyi = jnp.sum(theta.log_std + width + LOG_SQRT_2PI)  # Rényi's entropy, log(integral of pi^q) / (1 - q)
            return jnp.broadcast_to(-_log_q(-renyi, q), lay_out(obs).shape[:-1])

        return Policy(
            init=init,
            prepare=lambda theta: (theta, jnp.exp(theta.log_std)),
            noise=lambda key, shape: jax.random.normal(key, (*shape, count)),
            sample=lambda ready, obs, noise: mean(ready[0], obs) + ready[1] * noise,
            action=lambda choice: choice.reshape(shape),
            log_probs=log_probs,
            entropy=lambda theta, obs: tsallis(theta, obs, 1.0),
            tsallis=tsallis,
            kl=kl,
            host=host,
            mode=mean,
            hold=hold,
            about={
                "kind": "gaussian-mlp",
                "layers": [size, *hidden, count],
                "activation": network.ACTIVATION,
                "noise_held_for": hold,
            },
        )

    return build


def _like(row: Array, x: Array) -> Array:
    """`row` [n] as it broadcasts against x [..., n]."""
    return jnp.broadcast_to(row.reshape((1,) * (x.ndim - 1) + row.shape), x.shape)


def _log_q(log_x: Array, q: float) -> Array:
    """ln_q(x) = (x^(q-1) - 1) / (q - 1) of log x, and log x itself at q = 1 (Lee et al. 2019)."""
    return log_x if q == 1 else jnp.expm1((q - 1) * log_x) / (q - 1)
