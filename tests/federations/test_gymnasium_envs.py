"""Real Gymnasium environments as federations (about 3 s)."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.wrappers import TimeLimit

from fedrl.environments import protocol
from fedrl.environments.errors import EnvironmentFailed, check_finite
from fedrl.environments.spaces import describe
from fedrl.federations.federation import Federation
from fedrl.federations.gymnasium_envs import gymnasium

TASKS = {
    "CartPole-v1": (protocol.Discrete(2), 500, np.float32),
    "Pendulum-v1": (protocol.Box((1,), (-2.0,), (2.0,)), 200, np.float32),
    "FrozenLake-v1": (protocol.Discrete(4), 100, np.int32),
}


class Room(gym.Env):
    """An environment that says what it was given; `said` and `paid` are what it answers."""

    def __init__(self, observations=None, actions=None, said=None, paid=0.0):
        self.observation_space = observations or Box(-1.0, 1.0, (2, 2))
        self.action_space = actions or Discrete(3)
        self.said, self.paid, self.given = said, paid, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample() if self.said is None else self.said, {}

    def step(self, action):
        self.given.append(action)
        return self.observation_space.sample() if self.said is None else self.said, self.paid, False, False, {}


def opened(federation, client_id=0, num_envs=2):
    return federation.environment.open(client_id, federation.env_params[client_id], num_envs)


def seeds(*numbers):
    return np.asarray(numbers, np.uint64)


def actions_of(space, random, num_envs):
    if isinstance(space, protocol.Discrete):
        return random.integers(0, space.n, num_envs).astype(np.int32)
    return random.uniform(-3.0, 3.0, (num_envs, *space.shape)).astype(np.float32)


@pytest.mark.parametrize("name", TASKS)
def test_copies_step_as_environments_of_their_own(name):
    actions, max_episode_steps, dtype = TASKS[name]
    federation = gymnasium(lambda client_id: gym.make(name), clients=3, gamma=0.9)
    assert isinstance(federation, Federation)
    assert (federation.count, federation.environment.gamma, federation.environment.max_episode_steps) == (
        3,
        0.9,
        max_episode_steps,
    )
    assert federation.environment.actions == actions
    simulator, alone = opened(federation, num_envs=3), [gym.make(name) for _ in range(3)]
    seen = simulator.reset(np.arange(3), seeds(0, 1, 2))
    theirs = np.asarray([env.reset(seed=seed)[0] for seed, env in enumerate(alone)], dtype)
    np.testing.assert_array_equal(seen, theirs)
    random, next_seed = np.random.default_rng(0), 3
    for _ in range(250):
        drawn = actions_of(actions, random, 3)
        observations, rewards, terminated, truncated = simulator.step(drawn)
        bounded = drawn if drawn.ndim == 1 else np.clip(drawn, -2.0, 2.0)
        wanted = [env.step(action) for env, action in zip(alone, bounded, strict=True)]
        assert observations.dtype == dtype
        np.testing.assert_array_equal(observations, np.asarray([step[0] for step in wanted], dtype))
        np.testing.assert_array_equal(rewards, [step[1] for step in wanted])
        np.testing.assert_array_equal(terminated, [step[2] for step in wanted])
        np.testing.assert_array_equal(truncated, [step[3] for step in wanted])
        again = np.flatnonzero(terminated | truncated)
        if len(again):
            fresh = seeds(*range(next_seed, next_seed + len(again)))
            next_seed += len(again)
            starts = [alone[row].reset(seed=int(seed))[0] for row, seed in zip(again, fresh, strict=True)]
            np.testing.assert_array_equal(simulator.reset(again, fresh), np.asarray(starts, dtype))
    assert next_seed > 3
    simulator.close()


def play(seed):
    simulator = opened(gymnasium(lambda client_id: gym.make("Pendulum-v1"), clients=1), num_envs=2)
    seen = [simulator.reset(np.arange(2), seeds(seed, seed + 1))]
    for _ in range(20):
        seen.append(simulator.step(np.ones((2, 1), np.float32))[0])
    return np.stack(seen)


def test_same_seeds_same_bytes_and_copies_differ():
    assert play(3).tobytes() == play(3).tobytes()
    assert play(3).tobytes() != play(4).tobytes()
    assert not np.array_equal(play(3)[:, 0], play(3)[:, 1])


def test_rows_are_reset_in_the_order_asked_and_the_others_are_left_alone():
    simulator = opened(gymnasium(lambda client_id: gym.make("CartPole-v1"), clients=1), num_envs=3)
    starts = simulator.reset(np.arange(3), seeds(0, 1, 2))
    simulator.step(np.zeros(3, np.int32))
    again = simulator.reset(np.asarray([2, 0]), seeds(1, 2**40 + 2))
    np.testing.assert_array_equal(again, starts[[1, 2]])
    fresh = opened(gymnasium(lambda client_id: gym.make("CartPole-v1"), clients=1), num_envs=1)
    fresh.reset(np.arange(1), seeds(1))
    fresh.step(np.zeros(1, np.int32))
    np.testing.assert_array_equal(simulator.step(np.ones(3, np.int32))[0][1], fresh.step(np.ones(1, np.int32))[0][0])


def test_clients_may_differ_in_what_make_env_makes():
    federation = gymnasium(lambda client_id: gym.make("Pendulum-v1", g=9.0 + client_id), clients=2)
    ends = []
    for client_id in (0, 1):
        simulator = opened(federation, client_id, num_envs=1)
        simulator.reset(np.arange(1), seeds(0))
        ends.append([simulator.step(np.zeros((1, 1), np.float32))[0] for _ in range(3)][-1])
    assert not np.array_equal(*ends)


@pytest.mark.parametrize(
    ("make", "max_episode_steps", "wanted"),
    [
        (lambda: Room(), None, 0),
        (lambda: Room(), 7, 7),
        (lambda: TimeLimit(Room(), 5), None, 5),
        (lambda: gym.make("FrozenLake-v1"), 7, 7),
        (lambda: gym.make("FrozenLake-v1"), 700, 100),
        (lambda: gym.make("FrozenLake-v1").unwrapped, None, 0),
    ],
)
def test_the_shorter_time_limit_holds(make, max_episode_steps, wanted):
    assert (
        gymnasium(
            lambda client_id: make(), clients=1, max_episode_steps=max_episode_steps
        ).environment.max_episode_steps
        == wanted
    )


def test_an_episode_is_cut_at_the_limit():
    simulator = opened(gymnasium(lambda client_id: Room(), clients=1, max_episode_steps=3))
    simulator.reset(np.arange(2), seeds(0, 1))
    assert [simulator.step(np.zeros(2, np.int32))[3].tolist() for _ in range(3)] == [[False] * 2] * 2 + [[True] * 2]


def given(actions, came):
    rooms = []

    def make_env(client_id):
        rooms.append(Room(actions=actions))
        return rooms[-1]

    simulator = opened(gymnasium(make_env, clients=1), num_envs=2)
    simulator.reset(np.arange(2), seeds(0, 1))
    simulator.step(came)
    return [room.given[0] for room in rooms[1:]]


def test_actions_take_the_spaces_bounds_shape_and_type():
    one, two = given(Box(-1.0, 2.0, (2, 2), np.float64), np.asarray([[0, 1, 3, -9], [0.5, 0, 0, 0]], np.float32))
    np.testing.assert_array_equal(one, [[0.0, 1.0], [2.0, -1.0]])
    assert (two.shape, two.dtype, two[0, 0]) == ((2, 2), np.float64, 0.5)
    whole, _ = given(Box(0, 9, (2,), np.uint8), np.asarray([[-4.0, 2.7], [0.0, 0.0]], np.float32))
    assert whole.dtype == np.uint8
    np.testing.assert_array_equal(whole, [0, 3])
    assert given(Discrete(3, start=5), np.asarray([0, 2], np.int32)) == [5, 7]


def test_observations_are_flat_and_counted_from_zero():
    federation = gymnasium(lambda client_id: Room(), clients=1)
    assert federation.environment.observations == protocol.Box((4,), (-1.0,) * 4, (1.0,) * 4)
    first = opened(federation).reset(np.arange(2), seeds(0, 1))
    assert (first.shape, first.dtype) == ((2, 4), np.float32)
    federation = gymnasium(lambda client_id: Room(observations=Discrete(4, start=10), said=13), clients=1)
    assert federation.environment.observations == protocol.Discrete(4)
    np.testing.assert_array_equal(opened(federation).reset(np.arange(2), seeds(0, 1)), np.int32([3, 3]))


def test_spaces_of_all_clients_are_client_0s():
    federation = gymnasium(lambda client_id: gym.make("CartPole-v1" if client_id < 2 else "Acrobot-v1"), clients=3)
    opened(federation, 1)
    with pytest.raises(
        EnvironmentFailed, match=r"client 2: observation space Box.*\(6,\).*, expected client 0's Box.*\(4,\)"
    ):
        opened(federation, 2)


def test_a_make_env_that_raises_is_named():
    def make_env(client_id):
        if client_id == 3:
            raise KeyError("no such map")
        return gym.make("FrozenLake-v1")

    federation = gymnasium(make_env, clients=4)
    with pytest.raises(
        EnvironmentFailed, match="client 3: make_env raised KeyError: 'no such map'; fix it or exclude"
    ) as told:
        opened(federation, 3)
    assert isinstance(told.value.__cause__, KeyError)
    with pytest.raises(EnvironmentFailed, match="client 0: make_env returned NoneType, expected a gymnasium.Env"):
        gymnasium(lambda client_id: None, clients=1)


def test_an_environment_without_a_space_is_named():
    class Spaceless(gym.Env):
        action_space = gym.spaces.Discrete(2)

    with pytest.raises(EnvironmentFailed, match="client 0: Spaceless has no observation_space, expected one of gymnas"):
        gymnasium(lambda client_id: Spaceless(), clients=1)
    with pytest.raises(EnvironmentFailed, match="client 0: Spaceless has no observation_space"):
        gymnasium(lambda client_id: gym.Wrapper(Spaceless()), clients=1)


def test_a_step_or_reset_that_raises_is_named():
    class Broken(Room):
        def reset(self, *, seed=None, options=None):
            raise ConnectionError("nobody there")

        def step(self, action):
            raise KeyError("door")

    simulator = opened(gymnasium(lambda client_id: Broken(), clients=2), 1)
    with pytest.raises(EnvironmentFailed, match="client 1: reset raised ConnectionError: nobody there"):
        simulator.reset(np.arange(2), seeds(0, 1))
    with pytest.raises(EnvironmentFailed, match="client 1: step raised KeyError: 'door'"):
        simulator.step(np.zeros(2, np.int32))


def test_numbers_that_are_not_finite_are_named():
    broken = np.full((2, 2), np.nan, np.float32)
    simulator = opened(gymnasium(lambda client_id: Room(said=broken), clients=2), 1)
    with pytest.raises(EnvironmentFailed, match=r"client 1, copy 0: observation \[nan nan nan nan\] is not finite"):
        simulator.reset(np.arange(2), seeds(0, 1))
    simulator = opened(gymnasium(lambda client_id: Room(paid=np.inf), clients=2), 1)
    simulator.reset(np.arange(2), seeds(0, 1))
    with pytest.raises(EnvironmentFailed, match="client 1, copy 0: reward inf is not finite"):
        simulator.step(np.zeros(2, np.int32))
    with pytest.raises(EnvironmentFailed, match=r"client 4, copy 1: observation \[ *0. +inf\]"):
        check_finite(4, np.asarray([[0.0, 0.0], [0.0, np.inf]]), np.zeros(2))
    check_finite(4, np.zeros((2, 2)), np.zeros(2))


@pytest.mark.parametrize(
    ("room", "supported"),
    [
        ({"observations": Dict({"a": Text(3)})}, "Dict and Tuple of these; .*TransformObservation"),
        ({"actions": Dict({"a": Discrete(2)})}, "MultiDiscrete and MultiBinary; .*TransformAction"),
        ({"actions": Tuple((Discrete(2),))}, "MultiDiscrete and MultiBinary; .*TransformAction"),
    ],
)
def test_other_spaces_are_refused(room, supported):
    name = next(iter(room.values()))
    with pytest.raises(EnvironmentFailed, match=f"client 0: .* come from .*, supported are .*{supported}") as told:
        gymnasium(lambda client_id: Room(**room), clients=1)
    assert str(name) in str(told.value)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="got 0, 0.99 and None"):
        gymnasium(lambda client_id: Room(), clients=0)
    with pytest.raises(ValueError, match="got 1, 0.99 and -5"):
        gymnasium(lambda client_id: Room(), clients=1, max_episode_steps=-5)


@pytest.mark.parametrize(
    "space", [Dict({"b": Discrete(3), "a": Box(-1.0, 1.0, (2,))}), Tuple((Discrete(2), MultiBinary(2))), MultiBinary(3)]
)
def test_observations_of_several_parts_are_flat(space):
    federation = gymnasium(lambda client_id: Room(observations=space), clients=1)
    assert federation.environment.observations.shape == gym.spaces.flatten_space(space).shape
    assert federation.environment.native_observations == describe(space)
    first = opened(federation).reset(np.arange(2), seeds(0, 1))
    assert (first.shape[1:], first.dtype) == (federation.environment.observations.shape, np.float32)


def test_actions_of_several_dimensions_reach_the_environment():
    one, two = given(MultiDiscrete([3, 2], start=[0, 5]), np.asarray([[2, 0], [1, 1]], np.int32))
    assert (one.tolist(), two.tolist()) == ([2, 5], [1, 6])
    one, two = given(MultiBinary(3), np.asarray([[1, 0, 1], [0, 0, 1]], np.int32))
    assert (one.tolist(), two.tolist(), one.dtype) == ([1, 0, 1], [0, 0, 1], np.int8)


def reaching(client_id: int) -> gym.Env:
    reach = 2.0 + client_id
    return Room(Box(0.0, 10 * reach, (1,)), Box(-reach, reach, (1,)), said=np.full(1, 5 * reach, np.float32))


def test_bounds_that_differ_are_rescaled_on_request():
    """The policy sees the same space, and each client's environment its own."""
    with pytest.raises(
        EnvironmentFailed, match=r"client 1: observation space .* only their bounds differ: .*rescale=True"
    ):
        opened(gymnasium(reaching, clients=2), 1)
    rooms = []

    def make_env(client_id):
        rooms.append(reaching(client_id))
        return rooms[-1]

    federation = gymnasium(make_env, clients=2, rescale=True)
    host = federation.environment
    assert host.observations == host.actions == protocol.Box((1,), (-1.0,), (1.0,))
    assert (host.native_actions["low"], host.native_actions["high"], host.native_actions["rescaled"]) == (-1, 1, True)
    for client_id, reach in ((0, 2.0), (1, 3.0)):
        simulator = opened(federation, client_id, num_envs=1)
        np.testing.assert_array_equal(simulator.reset(np.arange(1), seeds(0)), [[0.0]])
        simulator.step(np.float32([[0.5]]))
        assert rooms[-1].given[0].tolist() == [reach / 2]
    with pytest.raises(EnvironmentFailed, match=r"client 1: action space .*, so fix make_env or exclude this client"):
        opened(gymnasium(lambda i: Room(actions=Box(-1, 1, (1 + i,))), clients=2, rescale=True), 1)


def test_only_the_rows_asked_for_are_stepped():
    """As if the others were not there; a fault is named by its copy's own number."""
    federation = gymnasium(lambda client_id: gym.make("Pendulum-v1"), clients=1)
    some, eval_every = opened(federation, num_envs=4), opened(federation, num_envs=4)
    for simulator in (some, eval_every):
        simulator.reset(np.arange(4), seeds(0, 1, 2, 3))
    torque, rows = np.float32([[0.0], [1.0], [2.0], [-1.0]]), np.asarray([1, 3])
    for mine, theirs in zip(some.step(torque[rows], rows), eval_every.step(torque), strict=True):
        np.testing.assert_array_equal(mine, theirs[rows])
    fresh = opened(federation, num_envs=1)
    fresh.reset(np.arange(1), seeds(2))
    np.testing.assert_array_equal(some.step(torque[2:3], np.asarray([2]))[0], fresh.step(torque[2:3])[0])
    simulator = opened(gymnasium(lambda client_id: Room(paid=np.inf), clients=1), num_envs=3)
    simulator.reset(np.arange(3), seeds(0, 1, 2))
    with pytest.raises(EnvironmentFailed, match="client 0, copy 2: reward inf is not finite"):
        simulator.step(np.zeros(1, np.int32), np.asarray([2]))
