"""Fully connected networks with tanh layers, as plain arrays: the same function for JAX and for NumPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys
from fedrl.arguments import at_least
from fedrl.environments.protocol import Box, Discrete
from fedrl.keys import Key


class Layer(NamedTuple):
    """JAX arrays, or NumPy arrays if a policy acts on the host."""

    kernel: Any  # [inputs, outputs]
    bias: Any  # [outputs]


Layers = tuple[Layer, ...]
ACTIVATION = "tanh"  # between the layers


def check_hidden(hidden: tuple[int, ...]) -> None:
    for units in hidden:
        at_least(1, "give the layers one by one: mlp(64, 64)", hidden=units)


def init(key: Key, sizes: tuple[int, ...], last: float = 1.0) -> Layers:
    """Glorot-normal kernels, zero biases; the kernel of the last layer is scaled by `last`."""
    draw = jax.nn.initializers.glorot_normal()
    count = len(sizes) - 1
    kernels = [draw(keys.of(key, "layer", i), (sizes[i], sizes[i + 1]), jnp.float32) for i in range(count)]
    kernels[-1] = last * kernels[-1]
    return tuple(Layer(kernel, jnp.zeros(kernel.shape[1:])) for kernel in kernels)


def forward(layers: Layers, x: Any) -> Any:
    """tanh between the layers, nothing after the last; x is [..., inputs]."""
    tanh = np.tanh if isinstance(x, np.ndarray) else jnp.tanh
    flat = x.reshape(-1, x.shape[-1])
    for layer in layers[:-1]:
        flat = tanh(flat @ layer.kernel + layer.bias[None, :])
    flat = flat @ layers[-1].kernel + layers[-1].bias[None, :]
    return flat.reshape(*x.shape[:-1], flat.shape[-1])


def inputs(space: Discrete | Box) -> tuple[int, Callable[[Any], Any]]:
    """The number of inputs of an observation, and a function that lays it out: flat, or one-hot if they are finite."""
    if isinstance(space, Discrete):
        return space.n, lambda obs: _one_hot(obs, space.n)
    depth = len(space.shape)
    return space.size, lambda obs: obs.reshape(*obs.shape[: obs.ndim - depth], space.size)


def _one_hot(obs: Any, count: int) -> Any:
    return np.eye(count, dtype=np.float32)[obs] if isinstance(obs, np.ndarray) else jax.nn.one_hot(obs, count)
