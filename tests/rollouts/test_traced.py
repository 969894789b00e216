"""Roll-outs inside a compiled program: where episodes end, begin anew and are cut (about 5 s)."""

from functools import lru_cache, partial

import jax
import numpy as np
import pytest

from fedrl.environments.control import cart_pole, mountain_car
from fedrl.policies import network
from fedrl.policies.mlp import gaussian_mlp, mlp
from fedrl.rollouts.episodes import sampler
from fedrl.rollouts.traced import rollout
from fedrl.types import Trajectory

LIMIT, HORIZON, BATCH = 7, 40, 3
CART = cart_pole.environment(max_episode_steps=LIMIT)
WORLD = cart_pole.params(force=60.0)  # pushed so hard that some poles fall before time is up
POLICY = mlp(8, last=0.1)(CART)
THETA = POLICY.init(jax.random.key(0))


@lru_cache
def program(restart: bool):
    return jax.jit(partial(rollout, CART, POLICY, horizon=HORIZON, batch=BATCH, restart=restart))


def trajectory(restart: bool, key: int = 0) -> Trajectory:
    return jax.tree.map(np.asarray, program(restart)(THETA, WORLD, jax.random.key(key)))


def test_shapes_and_kinds():
    found = trajectory(restart=True)
    assert found.obs.shape == found.after.shape == (BATCH, HORIZON, 4)
    for field in (found.choice, found.reward, found.alive, found.terminated, found.truncated):
        assert field.shape == (BATCH, HORIZON)
    assert [x.dtype for x in (found.alive, found.terminated, found.truncated)] == [bool] * 3


def test_restart_begins_a_new_episode_wherever_one_ended():
    found = trajectory(restart=True)
    over = (found.terminated | found.truncated)[:, :-1]
    before, after, following = found.terminated[:, :-1], found.after[:, :-1], found.obs[:, 1:]
    assert before.any()
    assert (over & ~before).any()  # both ways of ending are here
    assert not over.all()
    np.testing.assert_array_equal(following[~over], after[~over])
    starts = np.concatenate([found.obs[:, 0], following[over]])
    assert (np.abs(starts) <= 0.05).all()
    assert len(np.unique(starts, axis=0)) == len(starts)  # each start is drawn anew
    fallen = (np.abs(after[..., 0]) > cart_pole.MAX_POSITION) | (np.abs(after[..., 2]) > cart_pole.MAX_ANGLE)
    np.testing.assert_array_equal(fallen, before)  # `after` is what was seen before the reset
    assert found.alive.all()
    assert (found.reward == 1.0).all()


def test_cut_is_out_of_time_or_the_last_step_and_never_done():
    found = trajectory(restart=True)
    assert not (found.terminated & found.truncated).any()
    assert (found.terminated | found.truncated)[:, -1].all()
    assert found.truncated[:, -1].any()
    for terminated, truncated in zip(found.terminated, found.truncated, strict=True):
        age = 0
        for t in range(HORIZON):
            age += 1
            assert truncated[t] == ((age == LIMIT or t == HORIZON - 1) and not terminated[t])
            age = 0 if terminated[t] or truncated[t] else age


def test_one_episode_each_without_restart():
    found = trajectory(restart=False)
    over = found.terminated | found.truncated
    for row in range(BATCH):
        length = int(np.argmax(over[row])) + 1
        assert length <= LIMIT
        assert found.alive[row, :length].all()
        assert not found.alive[row, length:].any()
        np.testing.assert_array_equal(found.reward[row], np.arange(HORIZON) < length)


def test_the_first_episodes_are_the_same_with_and_without_restart():
    once, again = trajectory(restart=False), trajectory(restart=True)
    for mine, theirs in zip(once, again, strict=True):
        np.testing.assert_array_equal(mine[once.alive], theirs[once.alive])


@pytest.mark.parametrize("restart", [False, True])
def test_same_key_same_bytes_another_key_other_bytes(restart):
    first, same, other = (trajectory(restart, key) for key in (1, 1, 2))
    assert [x.tobytes() for x in first] == [x.tobytes() for x in same]
    assert first.obs.tobytes() != other.obs.tobytes()
    assert first.choice.tobytes() != other.choice.tobytes()


def test_noise_is_held():
    """A draw lasts four steps, also where episodes end in between, and the last one as long as there is time."""
    hills = mountain_car.environment(max_episode_steps=7)
    policy = gaussian_mlp(8, hold=4)(hills)
    theta = policy.init(jax.random.key(0))
    act = jax.jit(partial(rollout, hills, policy, horizon=10, batch=2, restart=True))
    found = jax.tree.map(np.asarray, act(theta, mountain_car.params(), jax.random.key(3)))
    noise = (found.choice - network.forward(jax.tree.map(np.asarray, theta.layers), found.obs))[..., 0]
    held = noise[:, [0, 4, 8]].repeat(4, axis=1)[:, :10]
    np.testing.assert_allclose(noise, held, atol=1e-5)
    assert len(np.unique(noise[:, [0, 4, 8]].round(3))) == 6


@pytest.mark.parametrize("wrong", [{"horizon": 0, "batch": 1}, {"horizon": 1, "batch": 0}])
def test_nonsense(wrong):
    with pytest.raises(ValueError, match="needs horizon and batch of at least 1, got"):
        sampler(CART, POLICY, **wrong)
