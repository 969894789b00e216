"""MuJoCo tasks against Gymnasium's own v5 environments, bit for bit (about 5 s)."""

import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from fedrl.environments.control import mujoco as tasks
from fedrl.environments.control.mujoco_tasks import (
    HALF_CHEETAH,
    HOPPER,
    WALKER2D,
    MujocoParams,
    compile_model,
    params,
    validate,
)
from fedrl.environments.errors import EnvironmentFailed
from fedrl.federations.federation import Federation
from fedrl.keys import of_seed

PAIRS = {
    "HalfCheetah-v5": (HALF_CHEETAH, tasks.half_cheetah),
    "Walker2d-v5": (WALKER2D, tasks.walker2d),
    "Hopper-v5": (HOPPER, tasks.hopper),
}
COPIES = 3


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """MuJoCo appends its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


def host_world(task, **fields):
    return jax.tree.map(np.asarray, params(task, **fields))


def seeds(*numbers):
    return np.asarray(numbers, np.uint64)


def unwrapped(name):
    return gymnasium.make(name).unwrapped


def gymnasium_reset(env, seed):
    env.np_random = np.random.Generator(np.random.Philox(seed))
    return env.reset()[0]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_and_resets_are_gymnasiums_to_the_bit(name, dtype):
    task, build = PAIRS[name]
    host = build(max_episode_steps=40)
    simulator = host.open(0, host_world(task), COPIES)
    envs = [unwrapped(name) for _ in range(COPIES)]
    observations = simulator.reset(np.arange(COPIES), seeds(0, 1, 2))
    np.testing.assert_array_equal(
        observations, np.float32([gymnasium_reset(env, seed) for seed, env in enumerate(envs)])
    )
    random, next_seed, ends, elapsed = np.random.default_rng(0), 3, 0, np.zeros(COPIES, int)
    for _ in range(120):
        actions = random.uniform(-1.5, 1.5, (COPIES, *host.actions.shape)).astype(dtype)
        observations, rewards, terminated, truncated = simulator.step(actions)
        elapsed += 1
        wanted = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        np.testing.assert_array_equal(observations, np.float32([step[0] for step in wanted]))
        np.testing.assert_array_equal(simulator.qpos, [env.data.qpos for env in envs])
        np.testing.assert_array_equal(simulator.qvel, [env.data.qvel for env in envs])
        np.testing.assert_array_equal(rewards, [step[1] for step in wanted])
        np.testing.assert_array_equal(terminated, [step[2] for step in wanted])
        np.testing.assert_array_equal(truncated, elapsed >= 40)
        again = np.flatnonzero(terminated | truncated)
        if len(again):
            fresh = seeds(*range(next_seed, next_seed + len(again)))
            next_seed, ends = next_seed + len(again), ends + int(terminated.sum())
            elapsed[again] = 0
            wanted_starts = [gymnasium_reset(envs[row], int(seed)) for row, seed in zip(again, fresh, strict=True)]
            np.testing.assert_array_equal(simulator.reset(again, fresh), np.float32(wanted_starts))
    assert next_seed > 3 + COPIES
    assert (ends > 3) == (name != "HalfCheetah-v5")
    simulator.close()


@pytest.mark.parametrize("name", ["Walker2d-v5", "Hopper-v5"])
def test_healthy_is_gymnasiums_in_any_state(name):
    task, env, random = PAIRS[name][0], unwrapped(name), np.random.default_rng(0)
    qpos, qvel = (random.normal(0.0, 0.5, (2000, size)) for size in (env.model.nq, env.model.nv))
    qpos[:, 1] = random.uniform(0.5, 2.5, 2000)
    qpos[:, 2] *= random.choice([0.1, 1.0, 2.0], 2000)
    qvel[1::5, 2] = random.uniform(-150.0, 150.0, 400)
    qpos[::5, 3] = random.uniform(-150.0, 150.0, 400)
    theirs = []
    for position, velocity in zip(qpos, qvel, strict=True):
        env.data.qpos[:], env.data.qvel[:] = position, velocity
        theirs.append(env.is_healthy)
    np.testing.assert_array_equal(task.healthy(qpos, qvel), theirs)
    assert 200 < sum(theirs) < 1800


@pytest.mark.parametrize("name", PAIRS)
def test_spaces_and_types(name):
    task, build = PAIRS[name]
    host, env = build(gamma=0.9), unwrapped(name)
    assert host.observations.shape == env.observation_space.shape
    np.testing.assert_array_equal(host.actions.low, env.action_space.low)
    np.testing.assert_array_equal(host.actions.high, env.action_space.high)
    assert (host.gamma, host.max_episode_steps) == (0.9, 1000)
    simulator = host.open(0, host_world(task), 2)
    start = simulator.reset(np.arange(2), seeds(7, 8))
    observations, rewards, terminated, truncated = simulator.step(np.zeros((2, *host.actions.shape), np.float32))
    assert (start.dtype, observations.dtype, rewards.dtype) == (np.float32, np.float32, np.float64)
    assert (terminated.dtype, truncated.dtype, terminated.shape, truncated.shape) == (bool, bool, (2,), (2,))
    assert not np.array_equal(start[0], start[1])


def play(threads, num_envs=16, steps=30):
    host = tasks.hopper(threads=threads)
    simulator = host.open(0, host_world(HOPPER), num_envs)
    seen = [simulator.reset(np.arange(num_envs), np.arange(num_envs, dtype=np.uint64))]
    random = np.random.default_rng(1)
    for _ in range(steps):
        seen.extend(simulator.step(random.uniform(-1, 1, (num_envs, 3)).astype(np.float32)))
    simulator.close()
    return b"".join(np.ascontiguousarray(x).tobytes() for x in seen)


def test_threads_do_not_change_a_bit():
    assert play(1) == play(2) == play(5) == play(None)


def test_only_the_rows_asked_for_are_stepped():
    """Copies left out stay where they are and are not missed by the others, to the bit."""
    some, eval_every = (tasks.hopper().open(0, host_world(HOPPER), 3) for _ in range(2))
    for simulator in (some, eval_every):
        simulator.reset(np.arange(3), seeds(0, 1, 2))
    still, rows, push = some.batch.state[1].copy(), np.asarray([0, 2]), np.random.default_rng(0).uniform(-1, 1, (3, 3))
    for _ in range(5):
        for mine, theirs in zip(some.step(push[rows], rows), eval_every.step(push), strict=True):
            assert mine.tobytes() == theirs[rows].tobytes()
    np.testing.assert_array_equal(some.batch.state[1], still)
    assert some.elapsed.tolist() == [5, 0, 5]


def bits(model):
    room = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, room)
    return room.tobytes()


@pytest.mark.parametrize("name", PAIRS)
def test_the_default_world_is_gymnasiums_model_though_held_in_float32(name):
    task, _ = PAIRS[name]
    held = params(task)
    assert held.leg_radius.dtype == jnp.float32
    model, theirs = compile_model(task, validate(task, 0, held)), unwrapped(name).model
    theirs.vis.global_.offwidth, theirs.vis.global_.offheight = model.vis.global_.offwidth, model.vis.global_.offheight
    assert bits(model) == bits(theirs)


def test_leg_mass_and_inertia_follow_from_its_radius():
    thin, usual = (compile_model(HOPPER, validate(HOPPER, 0, params(HOPPER, leg_radius=r))) for r in (0.02, 0.04))
    r, length = 0.02, 0.5
    volume = np.pi * r**2 * length + 4 / 3 * np.pi * r**3
    assert thin.body("leg").mass[0] == pytest.approx(1000.0 * volume, rel=1e-12)
    assert (thin.body("leg").inertia < usual.body("leg").inertia / 3).all()
    assert thin.body("leg").invweight0[0] > usual.body("leg").invweight0[0]
    assert thin.body("torso").mass[0] == usual.body("torso").mass[0]


@pytest.mark.parametrize("task", [HALF_CHEETAH, WALKER2D, HOPPER], ids=lambda task: task.name)
def test_factors_of_a_world(task):
    usual = compile_model(task, validate(task, 0, params(task)))
    model = compile_model(task, validate(task, 0, params(task, mass=1.5, gravity=0.5, friction=2.0)))
    np.testing.assert_array_equal(model.body_mass, 1.5 * usual.body_mass)
    np.testing.assert_array_equal(model.body_inertia, 1.5 * usual.body_inertia)
    np.testing.assert_array_equal(model.opt.gravity, 0.5 * usual.opt.gravity)
    np.testing.assert_array_equal(model.geom_friction, 2.0 * usual.geom_friction)
    np.testing.assert_allclose(model.body_subtreemass, 1.5 * usual.body_subtreemass, rtol=1e-12)


def test_noise_scales_the_start():
    host = tasks.half_cheetah()
    still = host.open(0, host_world(HALF_CHEETAH, noise=0.0), 2).reset(np.arange(2), seeds(0, 1))
    assert not still.any()
    one, two = (host.open(0, host_world(HALF_CHEETAH, noise=n), 1).reset(np.arange(1), seeds(5)) for n in (0.25, 0.5))
    np.testing.assert_allclose(two, 2.0 * one, rtol=1e-6)


@pytest.mark.parametrize(("level", "thickest"), [("low", 0.07), ("medium", 0.10), ("high", 0.15)])
def test_hopper_legs_are_the_papers(level, thickest):
    env_params = tasks.hopper_legs(level)
    np.testing.assert_allclose(env_params.leg_radius, 0.01 + np.arange(60) * (thickest - 0.01) / 59, rtol=1e-6)
    np.testing.assert_array_equal(env_params.noise, np.full(60, np.float32(5e-3)))
    federation = Federation(tasks.hopper(), env_params)
    assert federation.count == 60
    last = jax.tree.map(lambda x: np.asarray(x[59]), env_params)
    assert validate(HOPPER, 59, last).leg_radius == thickest
    simulator = federation.environment.open(59, last, 2)
    simulator.reset(np.arange(2), seeds(0, 1))
    for action in np.random.default_rng(2).uniform(-1, 1, (50, 2, 3)):
        simulator.step(action)


def test_perturbed_starts_are_near_gymnasiums_and_differ():
    draw = tasks.perturbed_starts(WALKER2D)
    env_params = jax.vmap(draw, (None, 0))(of_seed(0), jnp.arange(200))
    assert isinstance(env_params, MujocoParams)
    assert {x.shape for x in env_params} == {(200,)}
    assert (np.abs(env_params.noise - 5e-3) <= 5.001e-4).all()
    assert env_params.noise.max() - env_params.noise.min() > 9e-4
    assert float(draw(of_seed(0), 3).noise) == float(env_params.noise[3])
    with pytest.raises(ValueError, match="0 <= spread <= nominal=0.1, got 0.2"):
        tasks.perturbed_starts(HALF_CHEETAH, spread=0.2)


def test_bad_worlds_and_settings_are_named():
    with pytest.raises(EnvironmentFailed, match="client 7: hopper with mass=0.0, leg_radius=-0.1"):
        tasks.hopper().open(7, host_world(HOPPER, mass=0.0, leg_radius=-0.1), 1)
    with pytest.raises(EnvironmentFailed, match="client 2: leg_radius=0.05, but walker2d has no leg radius"):
        tasks.walker2d().open(2, host_world(WALKER2D, leg_radius=0.05), 1)
    with pytest.raises(ValueError, match="got 'huge' and 60"):
        tasks.hopper_legs("huge")
    with pytest.raises(ValueError, match="got 0.99 and 0"):
        tasks.hopper(max_episode_steps=0)
    with pytest.raises(ValueError, match="threads >= 1, or None for its share of the processors, got -1"):
        tasks.hopper(threads=-1)
    with pytest.raises(ValueError, match="client 4: actions of shape \\(3,\\), expected \\(2, 3\\)"):
        tasks.hopper().open(4, host_world(HOPPER), 2).step(np.zeros(3))


def test_an_unstable_copy_is_named_and_can_begin_again():
    simulator = tasks.hopper().open(3, host_world(HOPPER), 2)
    simulator.reset(np.arange(2), seeds(0, 1))
    with pytest.raises(EnvironmentFailed, match="client 3, copy 1 of hopper: Nan, Inf or huge value in CTRL"):
        simulator.step(np.asarray([[0.0, 0.0, 0.0], [np.nan, 0.0, 0.0]]))
    simulator.reset(np.arange(2), seeds(0, 1))
    simulator.step(np.zeros((2, 3)))
