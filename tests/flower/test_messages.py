"""What arrives over Flower is what was expected, or is refused by name; no SuperLink is needed for that."""

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import Array, ArrayRecord

from fedrl import keys
from fedrl.flower.messages import arrays, named, needed_leaves, tree

SENT = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.int32(4)}


def came(sent) -> ArrayRecord:
    return ArrayRecord(arrays(named("theta", sent)))


def test_a_tree_arrives_as_it_was():
    got = tree(came(SENT | {"key": keys.of_seed(3)}), "theta", SENT | {"key": keys.of_seed(0)})
    np.testing.assert_array_equal(got["w"], SENT["w"])
    assert (got["w"].dtype, got["n"].dtype, int(got["n"])) == (np.float32, np.int32, 4)
    assert got["key"] == keys.of_seed(3)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (np.zeros((2, 3), np.float64), r"theta/w came as float32\[2, 3\], expected float64\[2, 3\]"),
        (np.zeros((2, 3), np.int32), r"theta/w came as float32\[2, 3\], expected int32\[2, 3\]"),  # of the same size
        (np.zeros((3, 2), np.float32), r"theta/w came as float32\[2, 3\], expected float32\[3, 2\]"),
        (np.zeros((6,), np.float32), r"expected float32\[6\]; install the same fedrl"),
    ],
)
def test_another_dtype_or_shape_is_refused(like, message):
    with pytest.raises(ValueError, match=message):
        tree(came(SENT), "theta", SENT | {"w": like})


def test_what_did_not_come():
    with pytest.raises(ValueError, match="array theta/extra is missing; install the same fedrl on both sides"):
        tree(came(SENT), "theta", SENT | {"extra": np.ones(1)})
    got = tree(came(SENT), "theta", SENT | {"extra": np.ones(1)}, partly=True)
    np.testing.assert_array_equal(got["extra"], [1.0])


def test_bytes_of_another_format_are_refused():
    record = came(SENT)
    record["theta/w"] = Array(np.ones((2, 3), np.float32))  # as Flower itself packs it
    with pytest.raises(ValueError, match="theta/w came as 'numpy.ndarray', not 'fedrl.wire'"):
        tree(record, "theta", SENT)


def test_nobody_is_told_what_the_message_does_not_need():
    server = {"theta": jnp.ones(2), "secret": jnp.ones(3), "round": jnp.int32(1)}
    assert list(needed_leaves(lambda server, client: (server["theta"] * 2.0, server["round"]), server)) == [
        "server/round",
        "server/theta",
    ]
