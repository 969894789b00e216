"""Descriptions of spaces: flattening as Gymnasium does it, actions in bounds, rescaling, and all of it after JSON."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from fedrl.environments import protocol
from fedrl.environments.spaces import (
    bounds,
    common,
    describe,
    flatten,
    policy_actions,
    policy_observations,
    unflatten,
)

NESTED = Dict(
    {
        "where": Box(np.float32([-1.0, -np.inf, 0.0]), np.float32([1.0, np.inf, np.inf])),
        "eye": Tuple((Discrete(3, start=5), Box(0, 255, (2, 2), np.uint8))),
        "hands": Dict({"left": MultiDiscrete([2, 4], start=[1, 0]), "right": MultiBinary((2, 2))}),
    }
)
OBSERVATIONS = {
    "nested": NESTED,
    "multi-discrete": MultiDiscrete([[2, 3], [4, 5]]),
    "multi-binary": MultiBinary(4),
    "box": Box(-2.0, 3.0, (2, 3), np.float64),
    "tuple": Tuple((Discrete(2), Discrete(4))),
}


def after_json(description: dict) -> dict:
    return json.loads(json.dumps(description, allow_nan=False, sort_keys=True))


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_are_flattened_as_gymnasium_does(name):
    space = OBSERVATIONS[name]
    space.seed(0)
    samples = [space.sample() for _ in range(20)]
    description = after_json(describe(space))
    found = flatten(description, samples)
    np.testing.assert_array_equal(found, np.float32([gym.spaces.flatten(space, x) for x in samples]))
    assert found.dtype == np.float32
    flat, seen = gym.spaces.flatten_space(space), policy_observations(description)
    assert isinstance(seen, protocol.Box)
    assert seen.shape == found.shape[1:] == flat.shape
    np.testing.assert_array_equal(seen.low, flat.low)
    np.testing.assert_array_equal(seen.high, flat.high)


def test_a_lone_discrete_is_counted_from_zero():
    description = after_json(describe(Discrete(4, start=10)))
    assert policy_observations(description) == policy_actions(description) == protocol.Discrete(4)
    found = flatten(description, [13, np.int64(10)])
    assert (found.tolist(), found.dtype) == ([3, 0], np.int32)
    back = unflatten(description, found)
    assert (back.tolist(), back.dtype) == ([13, 10], np.int64)


def test_infinite_bounds_survive_json():
    description = after_json(describe(NESTED["where"]))
    assert description["low"] == [-1.0, None, 0.0]
    low, high = bounds(description)
    np.testing.assert_array_equal(low, [-1.0, -np.inf, 0.0])
    np.testing.assert_array_equal(high, [1.0, np.inf, np.inf])
    assert describe(Box(-np.inf, 1.0, (9,)))["low"] is None


@pytest.mark.parametrize("space", [MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, 7]]), MultiBinary((2, 3))])
def test_actions_of_several_dimensions_are_the_spaces_own(space):
    description = after_json(describe(space))
    sizes = policy_actions(description).sizes
    assert sizes == ((2, 3, 4, 5) if isinstance(space, MultiDiscrete) else (2,) * 6)
    given = np.random.default_rng(0).integers(0, sizes, (50, len(sizes))).astype(np.int32)
    native = unflatten(description, given)
    assert all(action in space for action in native)
    np.testing.assert_array_equal((native - getattr(space, "start", 0)).reshape(50, -1), given)


def test_actions_for_a_box_are_clipped():
    description = after_json(describe(Box(np.float32([0, -1]), np.float32([1, np.inf]))))
    np.testing.assert_array_equal(unflatten(description, np.float32([[2, -3], [0.5, 9]])), [[1, -1], [0.5, 9]])
    whole = unflatten(after_json(describe(Box(0, 9, (2,), np.uint8))), np.float32([[-4.0, 2.7]]))
    assert (whole.tolist(), whole.dtype) == ([[0, 3]], np.uint8)


def test_rescaling_maps_bounds_to_minus_one_and_one():
    """Entries without two bounds, or with the largest float for one, stay as they are; equal bounds become zero."""
    most = np.finfo(np.float32).max
    space = Box(np.float32([0, -4, -np.inf, -most, 2]), np.float32([10, 4, 3, most, 2]))
    description = after_json(describe(space, rescale=True))
    wide = flatten(description, np.float32([[0, -4, 2, 7, 2], [10, 2, 1, 0, 2]]))
    np.testing.assert_array_equal(wide, [[-1, -1, 2, 7, 0], [1, 0.5, 1, 0, 0]])
    np.testing.assert_array_equal(policy_observations(description).low[:3], [-1, -1, -np.inf])
    back = unflatten(description, np.float32([[-1, 0.5, 9, 7, 0.3], [5, 1, 1, 0, 0]]))
    np.testing.assert_array_equal(back, [[0, 2, 3, 7, 2], [10, 4, 1, 0, 2]])


def test_a_stranger_can_act_with_what_clients_of_other_bounds_share():
    one, other = (describe(Box(-reach, reach, (2,)), rescale=True) for reach in (2.0, 7.0))
    assert one != other
    assert common(one) == common(other)
    assert common(one) == {
        "type": "box", "shape": [2], "low": -1.0, "high": 1.0, "dtype": "float32", "rescaled": True
    }  # fmt: skip
    np.testing.assert_array_equal(unflatten(other, np.float32([[-1, 0.5]])), [[-7, 3.5]])
    np.testing.assert_array_equal(unflatten(common(one), np.float32([[-3, 0.5]])), [[-1, 0.5]])
    assert common(describe(NESTED)) == describe(NESTED)


def test_other_spaces_are_refused():
    with pytest.raises(ValueError, match="is not one of Box, Discrete, MultiDiscrete, MultiBinary"):
        describe(Tuple((Discrete(2), Text(5))))
    with pytest.raises(ValueError, match="a Dict or a Tuple are not supported"):
        policy_actions(describe(NESTED))
