"""Roll-outs on simulators: the same as in a compiled program, and nothing carries over (about 4 s)."""

from functools import lru_cache, partial

import gymnasium as gym
import jax
import numpy as np
import pytest

import fedrl
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.federations.federation import Federation
from fedrl.policies import network
from fedrl.policies.mlp import gaussian_mlp, mlp
from fedrl.policies.softmax import softmax_table
from fedrl.rollouts import host, traced
from fedrl.rollouts.episodes import sampler
from fedrl.types import Client, Trajectory

LIMIT, HORIZON, BATCH = 7, 40, 3
TRACED = cart_pole.environment(max_episode_steps=LIMIT)
POLICY = mlp(8, last=0.1)(TRACED)
THETA = POLICY.init(jax.random.key(0))


class Upright(gym.Wrapper):
    """CartPole that starts at rest and upright, pushed harder than usual."""

    def reset(self, **given):
        _, info = super().reset(**given)
        self.unwrapped.state, self.unwrapped.force_mag = np.zeros(4), 60.0
        return np.zeros(4, np.float32), info


@pytest.fixture(scope="module", autouse=True)
def _close():
    yield
    host.close_all()


@lru_cache
def federation(upright: bool = False) -> Federation:
    def make_env(client_id: int) -> gym.Env:
        env = gym.make("CartPole-v1")
        env.unwrapped.force_mag = 60.0 - client_id
        return Upright(env) if upright else env

    return fedrl.gymnasium(make_env, clients=2, max_episode_steps=LIMIT)


@lru_cache
def act(restart: bool, upright: bool = False):
    return sampler(federation(upright).environment, POLICY, horizon=HORIZON, batch=BATCH, restart=restart)


def trajectory(restart: bool, key: int = 0, *, upright: bool = False, client: int = 0) -> Trajectory:
    who = Client(np.int32(client), np.int32(client), (), ())
    return act(restart, upright)(THETA, who, jax.random.key(key))


def contents(found: Trajectory) -> list[bytes]:
    return [x.tobytes() for x in found]


def test_restart_begins_a_new_episode_wherever_one_ended():
    found = trajectory(restart=True)
    over, following, after = (found.terminated | found.truncated)[:, :-1], found.obs[:, 1:], found.after[:, :-1]
    assert found.terminated[:, :-1].any()
    assert found.truncated[:, :-1].any()
    np.testing.assert_array_equal(following[~over], after[~over])
    starts = np.concatenate([found.obs[:, 0], following[over]])
    assert (np.abs(starts) <= 0.05).all()
    assert len(np.unique(starts, axis=0)) == len(starts)
    fallen = (np.abs(after[..., 0]) > cart_pole.MAX_POSITION) | (np.abs(after[..., 2]) > cart_pole.MAX_ANGLE)
    np.testing.assert_array_equal(fallen, found.terminated[:, :-1])
    assert found.alive.all()


@pytest.mark.parametrize("restart", [False, True])
def test_the_same_as_in_a_compiled_program(restart):
    """From the same starts the same key gives the same choices and ends; only rounding differs."""
    found = trajectory(restart, upright=True)
    program = jax.jit(partial(traced.rollout, TRACED, POLICY, horizon=HORIZON, batch=BATCH, restart=restart))
    env_params = cart_pole.params(start=0.0, force=60.0)
    wanted = jax.tree.map(np.asarray, program(THETA, env_params, jax.random.key(0)))
    for name in Trajectory._fields:
        mine, theirs = getattr(found, name), getattr(wanted, name)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), name
    np.testing.assert_array_equal(found.alive, wanted.alive)
    assert restart or not found.alive.all()
    assert found.terminated.any()
    for name in ("choice", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(found, name)[found.alive], getattr(wanted, name)[found.alive], name)
    for name in ("obs", "after"):
        np.testing.assert_allclose(getattr(found, name)[found.alive], getattr(wanted, name)[found.alive], atol=1e-5)
    np.testing.assert_array_equal(found.reward == 0.0, ~found.alive)


def test_the_first_episodes_are_the_same_with_and_without_restart():
    """To the bit, though rows that are over are not stepped any more."""
    once, again = trajectory(restart=False), trajectory(restart=True)
    assert len(set(once.alive.sum(1))) > 1
    for mine, theirs in zip(once, again, strict=True):
        assert mine[once.alive].tobytes() == theirs[once.alive].tobytes()
    assert not once.reward[~once.alive].any()


class Counted(gym.Wrapper):
    steps = 0

    def step(self, action):
        Counted.steps += 1
        return super().step(action)


def test_rows_that_are_over_are_not_stepped():
    """As many steps are taken as count."""
    where = fedrl.gymnasium(lambda client_id: Counted(gym.make("CartPole-v1")), clients=1).environment
    play = sampler(where, POLICY, horizon=200, batch=8)
    Counted.steps = 0
    found = play(THETA, Client(np.int32(0), np.int32(0), (), ()), jax.random.key(0))
    lengths = found.alive.sum(axis=1)
    assert len(set(lengths)) > 1
    assert Counted.steps == lengths.sum() < 8 * lengths.max()


def test_nothing_carries_over():
    """The same bytes after other keys, another client, the other kind of roll-out, and with a simulator opened anew."""
    first = contents(trajectory(restart=True, key=1))
    others = [
        trajectory(restart=True, key=2),
        trajectory(restart=False, key=1),
        trajectory(restart=True, key=1, client=1),
    ]
    assert all(contents(other) != first for other in others)
    assert contents(trajectory(restart=True, key=1)) == first
    host.close_all()
    assert contents(trajectory(restart=True, key=1)) == first


def test_simulators_are_kept_until_they_are_closed():
    made, closed = [], []

    class Noted(gym.Wrapper):
        def close(self):
            closed.append(self)
            super().close()

    def make_env(client_id: int) -> gym.Env:
        made.append(client_id)
        return Noted(gym.make("CartPole-v1"))

    where = fedrl.gymnasium(make_env, clients=2, max_episode_steps=5).environment
    once = sampler(where, POLICY, horizon=5, batch=2)
    for client in (0, 1, 0, 1):
        once(THETA, Client(np.int32(client), np.int32(client), (), ()), jax.random.key(client))
    assert made == [0, 0, 0, 1, 1]  # one to look at, then two copies each
    assert len(closed) == 1
    host.close_all()
    assert len(closed) == 5


def test_noise_is_held():
    hills = fedrl.gymnasium(
        lambda client_id: gym.make("MountainCarContinuous-v0"), clients=1, max_episode_steps=7
    ).environment
    policy = gaussian_mlp(8, hold=4)(hills)
    theta, who, key = policy.init(jax.random.key(0)), Client(np.int32(0), np.int32(0), (), ()), jax.random.key(3)

    def noise(found: Trajectory) -> np.ndarray:
        layers = jax.tree.map(np.asarray, theta.layers)
        return (found.choice - network.forward(layers, np.asarray(found.obs)))[..., 0]

    mine = noise(sampler(hills, policy, horizon=10, batch=2, restart=True)(theta, who, key))
    compiled = sampler(mountain_car.environment(max_episode_steps=7), policy, horizon=10, batch=2, restart=True)
    np.testing.assert_allclose(
        mine, noise(compiled(theta, who._replace(env_params=mountain_car.params()), key)), atol=1e-5
    )
    np.testing.assert_allclose(mine, mine[:, [0, 4, 8]].repeat(4, axis=1)[:, :10], atol=1e-5)


def test_a_policy_without_a_twin_in_numpy_acts_too():
    lake = fedrl.gymnasium(
        lambda client_id: gym.make("FrozenLake-v1", is_slippery=False), clients=1, max_episode_steps=6
    )
    table = softmax_table()(lake.environment)
    assert table.host is None
    always_right = np.zeros((16, 4), np.float32) + np.asarray([0.0, 0.0, 50.0, 0.0], np.float32)
    play = sampler(lake.environment, table, horizon=6, batch=2)
    found = play(always_right, Client(np.int32(0), np.int32(0), (), ()), jax.random.key(0))
    np.testing.assert_array_equal(found.choice, np.full((2, 6), 2))
    np.testing.assert_array_equal(found.obs, [[0, 1, 2, 3, 3, 3]] * 2)
    np.testing.assert_array_equal(found.truncated, [[False] * 5 + [True]] * 2)
