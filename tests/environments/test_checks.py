"""What environments may answer and what not: each fault is one sentence that names the client, what came and what to do."""

import warnings

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from support.federations import environment, random_mdps

import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.environments.checks import flag, observation_fault, reward_number
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.spaces import describe
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import gymnasium
from fedrl.records import description


class Answering(gym.Env):
    """Answers what it is told to; `seen` at reset, `answer` at every step."""

    action_space = Discrete(2)

    def __init__(self, space, seen, answer):
        self.observation_space, self.seen, self.answer = space, seen, answer

    def reset(self, *, seed=None, options=None):
        return self.seen if isinstance(self.seen, tuple) else (self.seen, {})

    def step(self, action):
        return self.answer


def simulator(space, seen, answer):
    federation = gymnasium(lambda client_id: Answering(space, seen, answer), clients=4)
    return federation.environment.open(3, np.int32(3), 1)


def play(copies) -> None:
    copies.reset(np.arange(1), np.zeros(1, np.uint64))
    copies.step(np.zeros(1, np.int32))


def refused(space, seen, answer=None) -> str:
    with pytest.raises(EnvironmentFailed) as error:
        play(simulator(space, seen, answer))
    text = str(error.value)
    assert text.startswith("client 3")
    assert text.endswith("or exclude this client")
    assert text.count(";") == 1
    return text


def step(observation=0, reward=0.0, terminated=False, truncated=False):
    return observation, reward, terminated, truncated, {}


FAULTS = {
    "a complex reward": (
        Discrete(4),
        0,
        step(reward=np.complex64(1j)),
        "reward is np.complex64(1j) (complex64), expected",
    ),
    "text in an array": (
        Discrete(4),
        0,
        step(reward=np.array("x")),
        "reward is array('x', dtype='<U1') (ndarray), expected",
    ),
    "a reward no float can be": (Discrete(4), 0, step(reward=10**400), "expected one number"),
    "a Discrete out of range": (Discrete(4), 0, step(9), "the observation of step is 9 (int), outside 0 to 3"),
    "already at reset": (Discrete(4, start=2), 1, None, "the observation of reset is 1 (int), outside 2 to 5"),
    "a Discrete that is no whole number": (Discrete(4), 0, step(1.5), "1.5 (float), expected whole numbers"),
    "a Discrete as an array": (Discrete(4), 0, step(np.array([1])), "an array of shape (1,), expected ()"),
    "another shape": (Box(-1, 1, (2,)), np.zeros(2), step(np.zeros(3)), "an array of shape (3,), expected (2,)"),
    "a text": (Box(-1, 1, (2,)), "here", None, "is 'here', expected numbers"),
    "nothing": (Box(-1, 1, (2,)), np.zeros(2), step(None), "is None, expected numbers"),
    "far outside": (
        Box(0, 1, (2,)),
        np.zeros(2),
        step(np.array([0.0, 255.0])),
        "[  0. 255.], far outside its bounds",
    ),
    "an entry of a Dict": (Dict({"a": Discrete(2)}), {"a": 5}, None, "in its entry 'a' 5 (int), outside 0 to 1"),
    "a Dict without an entry": (Dict({"a": Discrete(2)}), {"b": 1}, None, "expected the entries 'a'"),
    "a Tuple too short": (Tuple((Discrete(2), Discrete(2))), [1], None, "[1] (list), expected the entries 0, 1"),
    "no bits": (MultiBinary(2), np.array([0, 2]), None, "not 0 or 1"),
    "one of several": (MultiDiscrete([2, 3]), np.array([1, 3]), None, "outside [0, 0] to [1, 2]"),
    "no reward": (Discrete(4), 0, step(reward=None), "reward is None, expected one number"),
    "an array for a reward": (Discrete(4), 0, step(reward=np.ones(1)), "reward is an array of shape (1,): [1.]"),
    "a text for a reward": (Discrete(4), 0, step(reward="much"), "reward is 'much', expected one number"),
    "terminated as a number": (Discrete(4), 0, step(terminated=1), "terminated is 1 (int), expected True or False"),
    "no truncated": (Discrete(4), 0, step(truncated=None), "truncated is None, expected True or False"),
    "the old interface": (Discrete(4), 0, step()[:4], "step returned 4 values, expected (observation, reward,"),
    "no info at reset": (Discrete(4), (0, 0, 0), None, "reset returned 3 values, expected (observation, info)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    space, seen, answer, said = FAULTS[fault]
    assert said in refused(space, seen, answer)


def test_what_real_environments_answer_passes():
    """A Box left by a little, integers for floats, entries without bounds, NumPy's numbers, bools for rewards."""
    bounded = observation_fault(describe(Box(np.float32([0, 0]), np.float32([1, np.inf]))))
    assert bounded([np.array([1.7, -1e6])]) is None
    assert bounded([[0, 1], (1, 0)]) is None
    assert bounded([np.zeros(2), np.array([2.1, 0.0])]) is not None
    for value in (1, 1.0, True, np.float32(1), np.int64(1), np.bool_(True), np.array(1.0)):
        assert reward_number(0, 0, value) == 1.0
    for value in (True, np.bool_(True), np.array(True)):
        assert flag(0, 0, "terminated", value) is True


def test_huge_rewards_warn_once_for_a_federation():
    federation = gymnasium(lambda client_id: Answering(Discrete(4), 0, step(reward=-2e12)), clients=2)
    one, other = (federation.environment.open(client, np.int32(client), 2) for client in (0, 1))
    before = description.describe(federation)
    with pytest.warns(UserWarning, match="client 1: a reward of size 2e\\+12, beyond 1e\\+09: .*TransformReward"):
        other.step(np.zeros(2, np.int32))
    assert description.describe(federation) == before  # so that the run can go on in this process
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.step(np.zeros(2, np.int32))
        one.step(np.zeros(2, np.int32))
        simulator(Discrete(4), 0, step(reward=1e9)).step(np.zeros(1, np.int32))


def test_huge_rewards_of_finite_mdps_warn():
    env_params = random_mdps(3)
    huge = env_params._replace(reward=env_params.reward.at[2].set(-3e10))
    with pytest.warns(UserWarning, match="client 2: a reward of size 3e\\+10"):
        Federation(environment(), huge)
    drawn = Federation(environment(), lambda key, client: jax.tree.map(lambda x: x[client], huge), clients=3)
    with pytest.warns(UserWarning, match="client 2: a reward of size 3e\\+10"):
        fedrl.train(pavg(eta=0.1, local_steps=1, horizon=2), drawn, rounds=1)


def test_the_copy_at_fault_is_named():
    federation = gymnasium(lambda client_id: Answering(Discrete(4), 0, step()), clients=1)
    copies = federation.environment.open(0, np.int32(0), 3)
    copies.envs[2].answer = step(9)
    with pytest.raises(EnvironmentFailed, match="client 0, copy 2: the observation of step is 9"):
        copies.step(np.zeros(3, np.int32))
    with pytest.raises(EnvironmentFailed, match="client 0, copy 2: the observation of step is 9"):
        copies.step(np.zeros(2, np.int32), np.array([1, 2]))
