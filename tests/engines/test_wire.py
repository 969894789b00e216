"""What arrives is what was sent: bytes, shapes, dtypes, random keys and weak types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.engines.wire import pack, unpack

LEAVES = {
    "float32": np.linspace(0, 1, 7, dtype=np.float32).reshape(7, 1),
    "bool": np.array([True, False, True]),
    "int8, no axis": np.int8(-3),
    "nothing": np.zeros((0, 4), np.float32),
    "bfloat16": jnp.arange(5, dtype=jnp.bfloat16),
    "reversed": np.arange(6, dtype=np.int32)[::-1],
    "weak": jnp.asarray(2.5),
    "weak int": jnp.asarray(2),
    "key": jax.random.key(7),
    "keys, rbg": jax.random.split(jax.random.key(7, impl="rbg"), 3),
}


def test_all_at_once():
    leaves, note = unpack(pack(list(LEAVES.values()), {"slots": [1, 2]}))
    assert note == {"slots": [1, 2]}
    for sent, came in zip(LEAVES.values(), leaves, strict=True):
        assert (came.dtype, came.shape) == (sent.dtype, sent.shape)
        assert getattr(came, "weak_type", False) == getattr(sent, "weak_type", False)
        if jnp.issubdtype(sent.dtype, jax.dtypes.prng_key):
            sent, came = jax.random.key_data(sent), jax.random.key_data(came)
        assert np.asarray(sent).tobytes() == np.asarray(came).tobytes()


@pytest.mark.parametrize("name", LEAVES)
def test_one_alone(name):
    ((came,), _) = unpack(pack([LEAVES[name]]))
    assert came.shape == np.shape(LEAVES[name])
