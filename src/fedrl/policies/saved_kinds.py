"""The kinds of saved policies: each makes an `Actor` of its arrays, in NumPy.

Without a generator its result is the most likely action, with one it is drawn.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedrl.policies import network
from fedrl.policies.network import Layer, Layers

Arrays = dict[str, np.ndarray]
Noise = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]


class Actor(NamedTuple):
    """`actor(observations [B], generator or None) -> actions [B]`, from a network or a table."""

    sizes: tuple[int, ...]  # how many choices each dimension has; () for the mean of a Gaussian
    layers: Layers = ()
    table: np.ndarray | None = None  # [states, actions], instead of layers
    std: np.ndarray | None = None  # of a Gaussian, [actions]
    noise: Noise | None = None  # of a Gaussian
    hold: int = 1  # for how many calls noise stays the same
    draws: bool = True  # False: it always takes the best action

    def parameters(self, obs: np.ndarray) -> np.ndarray:
        """What the action is chosen by, [B, n]: logits, all dimensions side by side, or the mean of a Gaussian."""
        parameters: np.ndarray
        if self.table is not None:
            parameters = self.table[obs]
            return parameters
        if obs.ndim == 1:  # finite observations: one-hot
            obs = np.eye(len(self.layers[0].kernel), dtype=np.float32)[obs]
        parameters = network.forward(self.layers, obs)
        return parameters

    def __call__(self, obs: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        parameters, rng = self.parameters(obs), rng if self.draws else None
        if not self.sizes:
            assert self.noise is not None
            return parameters if rng is None else parameters + self.std * self.noise(parameters.shape, rng)
        parts = np.split(parameters, np.cumsum(self.sizes)[:-1], axis=-1)
        choices = [_choose(part, rng) for part in parts]
        return choices[0] if len(choices) == 1 else np.stack(choices, axis=-1)


def _layers(arrays: Arrays, prefix: str = "") -> Layers:
    count = sum(name.endswith("kernel") for name in arrays)
    return tuple(Layer(arrays[f"{prefix}{i}/kernel"], arrays[f"{prefix}{i}/bias"]) for i in range(count))


def _choose(logits: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """For each row of [B, n] a column: the largest, or drawn from the softmax (Gumbel trick)."""
    noise = 0.0 if rng is None else rng.gumbel(size=logits.shape)
    choice: np.ndarray = np.argmax(logits + noise, axis=-1)
    return choice


def categorical(about: dict[str, Any], arrays: Arrays) -> Actor:
    return Actor((about["layers"][-1],), _layers(arrays))


def multi_categorical(about: dict[str, Any], arrays: Arrays) -> Actor:
    """One categorical for each dimension, their logits side by side."""
    return Actor(tuple(about["sizes"]), _layers(arrays))


def gaussian(about: dict[str, Any], arrays: Arrays) -> Actor:
    """Noise stays the same for "noise_held_for" calls with the same number of observations, as for steps in training."""
    hold = about.get("noise_held_for", 1)
    held: dict[int, tuple[int, np.ndarray]] = {}  # number of observations -> uses left, noise

    def noise(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        left, values = held.get(shape[0]) or (hold, rng.standard_normal(shape))
        held[shape[0]] = (left - 1, values)
        if left == 1:
            del held[shape[0]]
        return values

    return Actor((), _layers(arrays, "layers/"), std=np.exp(arrays["log_std"]), noise=noise, hold=hold)


def softmax_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    return _table(arrays["value"])


def greedy_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    return _table(arrays["value"])._replace(draws=False)


def probability_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    with np.errstate(divide="ignore"):  # an action never taken has log-probability -inf
        return _table(np.log(arrays["value"]))


def bit_softmax_table(about: dict[str, Any], arrays: Arrays) -> Actor:
    """Words of k bits, most significant first; the bit at a node of the heap follows its two logits."""
    theta, last = arrays["value"], about["actions"] - 1
    log_bits = theta - np.logaddexp(theta[..., :1], theta[..., 1:])
    word, p = np.arange(2 ** about["bits"])[:, None], np.arange(about["bits"])[None, :]
    nodes, bits = 2**p - 1 + (word >> (about["bits"] - p)), (word >> (about["bits"] - 1 - p)) & 1
    by_word = np.exp(log_bits[:, nodes, bits].sum(axis=-1))
    by_action = np.concatenate([by_word[:, :last], by_word[:, last:].sum(axis=-1, keepdims=True)], axis=-1)
    return probability_table(about, {"value": by_action})


def _table(logits: np.ndarray) -> Actor:
    return Actor((logits.shape[-1],), table=logits)


KINDS: dict[str, Callable[[dict[str, Any], Arrays], Actor]] = {
    "categorical-mlp": categorical,
    "multi-categorical-mlp": multi_categorical,
    "gaussian-mlp": gaussian,
    "softmax-table": softmax_table,
    "greedy-table": greedy_table,
    "probability-table": probability_table,
    "bit-softmax-table": bit_softmax_table,
}
