# The code of a NumPy export, of which a file has what its policy needs: a line that ends in "#: words" stays with what is
# indented below it if all these words are traits of the policy (`numpy_file.traits`).
# ruff: noqa: F811, F821
# mypy: ignore-errors
import numpy as np


def act(obs, rng=None):
    """The best action for one observation, or for many stacked ones; drawn, with rng=np.random.default_rng(0)."""
    x, one = parameters(obs)
    parts = np.split(x, np.cumsum(SIZES)[:-1], axis=1)  #: choices
    if rng is not None:  #: draws
        parts = [part + rng.gumbel(size=part.shape) for part in parts]  #: choices
        x = x + STD * rng.standard_normal(x.shape)  #: fresh
        x = x + STD * noise(x.shape, rng)  #: held
    x = np.stack([part.argmax(axis=1) for part in parts], axis=1) + START  #: choices
    x = np.where(BOUNDED, LOWEST + (np.clip(x, -1.0, 1.0) + 1.0) / 2.0 * WIDTH, x)  #: rescaled
    x = np.clip(x, LOW, HIGH)  #: box
    x = np.rint(x)  #: whole
    x = x.reshape(len(x), *SHAPE).astype(DTYPE)
    return x[0] if one else x


def parameters(obs):  #: table
    """Logits or values [observations, n], and whether `obs` is a single observation."""
    states = np.asarray(obs)
    rows = states.reshape(-1) - FIRST
    if (rows < 0).any() or (rows >= len(TABLE)).any():
        raise ValueError(f"an observation is outside its space: {FIRST} to {FIRST + len(TABLE) - 1}")
    return TABLE[rows], states.ndim == 0


def parameters(obs):  #: network
    """Logits, or the mean of a Gaussian, [observations, n]; and whether `obs` is a single observation."""
    parts = [np.asarray(part) for part in [obs]]
    one = parts[0].ndim == DIMENSIONS
    parts = [part.reshape(1 if one else len(part), -1) for part in parts]
    for i, (sizes, values) in ONE_HOT.items():  #: one-hot
        chosen = np.repeat(parts[i], sizes, axis=1) == values
        if chosen.sum() < parts[i].size:
            raise ValueError(f"an observation is outside its space of {sizes} whole numbers")
        parts[i] = chosen
    for i, (bounded, low, width, shift) in RESCALED.items():  #: rescales
        parts[i] = np.where(bounded, 2.0 * (parts[i] - low) / width - shift, parts[i])
    x = np.concatenate([part.astype(np.float32) for part in parts], axis=1)
    if not np.isfinite(x).all():
        raise ValueError("an observation holds NaN or infinity, expected finite numbers")
    x = np.clip((x - MEAN) / SCALE, -CLIP, CLIP)  #: filter
    for kernel, bias in LAYERS[:-1]:
        x = np.tanh(x @ kernel + bias)
    return x @ LAYERS[-1][0] + LAYERS[-1][1], one


def noise(shape, rng):  #: held
    """Drawn anew every HOLD calls, as in training; `HELD.clear()` at the start of an episode."""
    left, values = HELD.get(shape[0]) or (HOLD, rng.standard_normal(shape))
    HELD[shape[0]] = (left - 1, values) if left > 1 else None
    return values


def array(dtype, shape, digits):
    return np.frombuffer(bytes.fromhex(digits), dtype).reshape(shape)
