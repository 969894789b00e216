"""The kinds of saved policies: each makes `(observations [B], generator or None) -> actions [B]` of its arrays, in NumPy.

Without a generator the result is the most likely action, with one it is drawn.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedrl.policies import network
from fedrl.policies.network import Layer, Layers

Arrays = dict[str, np.ndarray]
Actor = Callable[[np.ndarray, np.random.Generator | None], np.ndarray]


def _layers(arrays: Arrays, prefix: str = "") -> Layers:
    count = sum(name.endswith("kernel") for name in arrays)
    return tuple(Layer(arrays[f"{prefix}{i}/kernel"], arrays[f"{prefix}{i}/bias"]) for i in range(count))


def _inputs(about: dict[str, Any], obs: np.ndarray) -> np.ndarray:
    """The input of the first layer: the observation, one-hot if observations are finite."""
    if obs.ndim == 1:
        one_hot: np.ndarray = np.eye(about["layers"][0], dtype=np.float32)[obs]
        return one_hot
    return obs


def _choose(logits: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """For each row of [B, n] a column: the largest, or drawn from the softmax (Gumbel trick)."""
    noise = 0.0 if rng is None else rng.gumbel(size=logits.shape)
    choice: np.ndarray = np.argmax(logits + noise, axis=-1)
    return choice


def categorical(about: dict[str, Any], arrays: Arrays) -> Actor:
    layers = _layers(arrays)
    return lambda obs, rng: _choose(network.forward(layers, _inputs(about, obs)), rng)


def multi_categorical(about: dict[str, Any], arrays: Arrays) -> Actor:
    """One categorical for each dimension, their logits side by side."""
    layers, ends = _layers(arrays), np.cumsum(about["sizes"])[:-1]

    def act(obs: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        parts = np.split(network.forward(layers, _inputs(about, obs)), ends, axis=-1)
        return np.stack([_choose(part, rng) for part in parts], axis=-1)

    return act


def gaussian(about: dict[str, Any], arrays: Arrays) -> Actor:
    """Noise stays the same for "noise_held_for" calls with the same number of observations, as for steps in training."""
    layers, spread = _layers(arrays, "layers/"), np.exp(arrays["log_std"])
    hold = about.get("noise_held_for", 1)
    held: dict[int, tuple[int, np.ndarray]] = {}  # number of observations -> uses left, noise

    def noise(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        left, values = held.get(shape[0]) or (hold, rng.standard_normal(shape))
        held[shape[0]] = (left - 1, values)
        if left == 1:
            del held[shape[0]]
        return values

    def act(obs: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        mean = network.forward(layers, _inputs(about, obs))
        action: np.ndarray = mean if rng is None else mean + spread * noise(mean.shape, rng)
        return action

    return act


def softmax_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    return lambda obs, rng: _choose(arrays["value"][obs], rng)


def greedy_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    return lambda obs, rng: _choose(arrays["value"][obs], None)


def probability_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    with np.errstate(divide="ignore"):  # an action never taken has log-probability -inf
        logits = np.log(arrays["value"])
    return lambda obs, rng: _choose(logits[obs], rng)


def bit_softmax_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    """Words of k bits, most significant first; the bit at a node of the heap follows its two logits."""
    theta, last = arrays["value"], about["actions"] - 1
    log_bits = theta - np.logaddexp(theta[..., :1], theta[..., 1:])
    word, p = np.arange(2 ** about["bits"])[:, None], np.arange(about["bits"])[None, :]
    nodes, bits = 2**p - 1 + (word >> (about["bits"] - p)), (word >> (about["bits"] - 1 - p)) & 1
    by_word = np.exp(log_bits[:, nodes, bits].sum(axis=-1))
    by_action = np.concatenate([by_word[:, :last], by_word[:, last:].sum(axis=-1, keepdims=True)], axis=-1)
    return probability_table(about, {"value": by_action})


KINDS: dict[str, Callable[[dict[str, Any], Arrays], Actor]] = {
    "categorical-mlp": categorical,
    "multi-categorical-mlp": multi_categorical,
    "gaussian-mlp": gaussian,
    "softmax-table": softmax_table,
    "greedy-table": greedy_table,
    "probability-table": probability_table,
    "bit-softmax-table": bit_softmax_table,
}
