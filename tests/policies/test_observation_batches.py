"""What a saved policy may be given, one observation or many; anything else is refused in a sentence."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from fedrl.environments import checks, spaces
from fedrl.policies.observation_batches import split_batch
from fedrl.policies.saved import SavedPolicy

NESTED = Dict(a=Box(-1, 1, (2,)), b=Discrete(3, start=1), z=Tuple((MultiBinary(2), MultiDiscrete([2, 3]))))
PAIR = Tuple((Discrete(3), Box(0, 255, (2, 2), np.uint8)))


def flat(space, given) -> tuple[np.ndarray, bool]:
    description = spaces.describe(space)
    rows, one = split_batch(description, checks.observation_fault(description), given)
    return spaces.flatten(description, rows), one


def samples(space, count: int = 3) -> list:
    space.seed(0)
    return [space.sample() for _ in range(count)]


def stacked(space, many: list):
    """As `gymnasium.vector` gives them."""
    if isinstance(space, Dict):
        return {name: stacked(part, [x[name] for x in many]) for name, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(stacked(part, [x[i] for x in many]) for i, part in enumerate(space.spaces))
    return np.stack(many)


@pytest.mark.parametrize("space", [NESTED, PAIR, Box(-1, 1, (4,)), Discrete(5), MultiDiscrete([[2, 3], [4, 2]])])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_many_at_once_are_those_one_by_one(space, count):
    many = samples(space, count)
    one_by_one = [flat(space, one) for one in many]
    assert all(one for _, one in one_by_one)
    wanted = np.concatenate([seen for seen, _ in one_by_one])
    for form in (many, tuple(many), stacked(space, many)):
        found, one = flat(space, form)
        assert not one
        np.testing.assert_array_equal(found, wanted)


def test_one_of_a_tuple_may_be_a_list():
    one = samples(PAIR)[0]
    np.testing.assert_array_equal(flat(PAIR, [int(one[0]), one[1].tolist()])[0], flat(PAIR, one)[0])


@pytest.mark.parametrize(
    ("space", "given", "said"),
    [
        (Box(-1, 1, (4,)), np.zeros((4, 1)), r"observation 0 of 4 is an array of shape \(1,\), expected \(4,\)"),
        (Box(-1, 1, (4,)), np.zeros(3), r"the observation is an array of shape \(3,\), expected \(4,\)"),
        (Box(-1, 1, (4,)), np.zeros((0, 4)), "an empty batch"),
        (Box(-1, 1, (2,)), [[0.0, 0.0], [0.0]], r"expected an array of shape \(2,\)"),
        (Box(-1, 1, (2,)), "no", "expected numbers"),
        (Box(0, 255, (2, 2, 1), np.uint8), np.zeros((3, 4)), r"shape \(3, 4\), expected \(2, 2, 1\)"),
        (Discrete(5, start=2), 1, "1 .*, outside 2 to 6"),
        (Discrete(5), -1, "-1 .*, outside 0 to 4"),
        (Discrete(5), [1, 9], r"observation 1 of 2 is .*9.*, outside 0 to 4"),
        (Discrete(5), 1.9, "expected whole numbers"),
        (Discrete(5), [], "an empty batch"),
        (MultiDiscrete([2, 3]), [1, 3], r"outside \[0, 0\] to \[1, 2\]"),
        (NESTED, {"a": np.zeros(2)}, "expected the entries 'a', 'b', 'z'"),
        (NESTED, 3, "expected the entries"),
        (NESTED, [], "an empty batch"),
        (Dict(a=Discrete(3), b=Discrete(4)), {"a": np.arange(3), "b": np.arange(2)}, "in its entry 'a'"),
        (PAIR, (0,), "expected the entries 0, 1"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(space, given, said):
    with pytest.raises(ValueError, match=said) as caught:
        flat(space, given)
    assert "; pass one observation, a list of them" in str(caught.value)
    assert "\n" not in str(caught.value)


def policy_of(hold: int = 1) -> SavedPolicy:
    """A Gaussian whose mean is zero, of two actions, for two observations."""
    arrays = {"k": np.zeros((1, 2, 2), np.float32), "b": np.zeros((1, 2), np.float32), "s": np.zeros((1, 2))}
    header = {
        "policy": {"kind": "gaussian-mlp", "layers": [2, 2], "activation": "tanh", "noise_held_for": hold},
        "tensors": {"parameters": {"layers/0/kernel": "k", "layers/0/bias": "b", "log_std": "s"}},
        "observations": spaces.describe(Box(-np.inf, np.inf, (2,))),
        "actions": spaces.describe(Box(-9, 9, (2,))),
        "seeds": {"axis": 0, "first": 0, "count": 1},
        "clients": 2,
    }
    return SavedPolicy(arrays, header)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"client": "0"}, "client must be a whole number counted from 0, or None for a new client, got '0'"),
        ({"client": 0.5}, "client must be a whole number"),
        ({"client": True}, "client must be a whole number"),
        ({"seed": None}, "seed must be a whole number counted from 0, got None"),
        ({"deterministic": "no"}, "deterministic must be True or False, got 'no'"),
    ],
)
def test_which_policy_is_asked_for(options, said):
    with pytest.raises(TypeError, match=said):
        policy_of().policy(**options)
    assert policy_of().policy(client=np.int64(1), seed=np.int32(0), deterministic=np.bool_(True))(
        np.zeros(2)
    ).shape == (2,)


def test_what_is_no_number_and_what_is_no_generator():
    with pytest.raises(ValueError, match="holds NaN or infinity, expected finite numbers"):
        policy_of().policy()(np.array([0.0, np.nan]))
    with pytest.raises(TypeError, match=r"rng must be a generator such as np.random.default_rng\(0\), got 3"):
        policy_of().policy(deterministic=False)(np.zeros(2), 3)


def test_noise_is_held_for_as_many_calls_as_in_training():
    act, rng = policy_of(hold=3).policy(deterministic=False), np.random.default_rng(0)
    one = np.stack([act(np.zeros(2), rng) for _ in range(6)])
    assert (one[:3] == one[0]).all()
    assert (one[3:] == one[3]).all()
    assert (one[0] != one[3]).all()
    many = np.stack([act(np.zeros((2, 2)), rng) for _ in range(2)])  # not mixed up with those of one at a time
    assert (many[0] == many[1]).all()
    free = policy_of().policy(deterministic=False)
    assert (free(np.zeros(2), rng) != free(np.zeros(2), rng)).all()
