"""The sparse model against the dense one, written out with plain loops in float64."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.environments.control import cart_pole
from fedrl.environments.protocol import Box
from fedrl.keys import of_seed
from fedrl.learners.ppo import ppo
from fedrl.selection.fedpohcs import Visited, compared, deltas, visited
from fedrl.selection.numbering import cells, names, secret
from fedrl.selection.tabular import advantages, chances, tabular, values, visits
from fedrl.types import Client, Learner, Trajectory

ROUNDING, GAMMA, SWEEPS = 0.25, 0.97, 60
ROWS, STEPS = 6, 80
SECRET = secret(of_seed(0))


def walk(seed: int, states: int = 5) -> Trajectory:
    """A walk on a grid of `states` x `states` cells with ends, cuts and rows that were never filled."""
    random = np.random.default_rng(seed)
    jitter = lambda shape: random.uniform(-0.3, 0.3, shape)  # noqa: E731
    obs, after = np.zeros((2, ROWS, STEPS, 2))
    terminated, truncated = random.random((2, ROWS, STEPS)) < 0.05
    truncated[:, -1] = True
    truncated &= ~terminated
    for row in range(ROWS):
        here = random.integers(0, 2, 2)
        for t in range(STEPS):
            there = np.clip(here + random.integers(-1, 2, 2), 0, states - 1)
            obs[row, t], after[row, t] = here, there
            here = random.integers(0, 2, 2) if terminated[row, t] or truncated[row, t] else there
    after[0, -1] = 77  # a state never left
    choice = random.integers(-1, 2, (ROWS, STEPS, 1)) + jitter((ROWS, STEPS, 1))
    alive = np.ones((ROWS, STEPS), bool)
    alive[-1] = False
    reward = np.where(alive, random.normal(1.0, 1.0, (ROWS, STEPS)), 0.0)
    floats = [(ROUNDING * (x + jitter(x.shape))) for x in (obs, after)]
    as32 = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
    return Trajectory(
        as32(floats[0]), as32(ROUNDING * choice), as32(reward), alive, terminated, truncated, as32(floats[1])
    )


def log_pi(theta, obs, choice):
    """A Gaussian whose mean depends on the state; for NumPy and JAX alike."""
    return -0.5 * ((choice - theta * obs[..., :1]) ** 2)[..., 0] * 4.0


def estimates(theta, client):
    """Some advantage for every step, as a critic and GAE might give; for NumPy and JAX alike."""
    trajectory = client.memory
    return theta * trajectory.reward - trajectory.obs[..., 0] + 0.5 * trajectory.choice[..., 0]


def dense(trajectory: Trajectory, theta: float, kind: str = "gae") -> dict:
    """D A by (state, action) cells: counts, P_hat, R_hat, pi, D, V and A as full arrays."""
    flat = [
        np.asarray(x, np.float64).reshape(ROWS * STEPS, -1)
        for x in (trajectory.obs, trajectory.choice, trajectory.after)
    ]
    s, a, z = ([tuple(map(int, row)) for row in np.rint(x / ROUNDING)] for x in flat)
    r, alive, terminated, truncated = (
        np.asarray(x).reshape(-1)
        for x in (trajectory.reward, trajectory.alive, trajectory.terminated, trajectory.truncated)
    )
    rows = np.flatnonzero(alive)
    state = {name: i for i, name in enumerate(sorted({s[m] for m in rows}))}
    action = {name: i for i, name in enumerate(sorted({a[m] for m in rows}))}
    n, k = len(state), len(action)
    count, reward, start = np.zeros((n, k, n + 1)), np.zeros((n, k)), np.zeros(n)
    for m in rows:
        i, j = state[s[m]], action[a[m]]
        count[i, j, n if terminated[m] else state.get(z[m], n)] += 1
        reward[i, j] += r[m]
        if m % STEPS == 0 or terminated[m - 1] or truncated[m - 1]:
            start[i] += 1
    start /= start.sum()
    taken = count.sum(axis=2)
    p = np.divide(count, taken[:, :, None], where=taken[:, :, None] > 0, out=np.zeros_like(count))
    reward = np.divide(reward, taken, where=taken > 0, out=np.zeros_like(reward))
    pi = np.zeros((n, k))
    for name, i in state.items():
        for other, j in action.items():
            if taken[i, j]:
                pi[i, j] = np.exp(log_pi(theta, ROUNDING * np.array(name), ROUNDING * np.array(other)))
    pi /= pi.sum(axis=1, keepdims=True)
    moves = np.einsum("ij,ijk->ik", pi, p)
    now, d = start, np.zeros(n)
    for _ in range(SWEEPS):
        d += now / SWEEPS
        now = now @ moves[:, :n] + (now @ moves[:, n]) * start
    v = np.linalg.solve(np.eye(n) - GAMMA * moves[:, :n], np.sum(pi * reward, axis=1))
    advantage = reward + GAMMA * p[:, :, :n] @ v - v[:, None]
    if kind == "gae":
        advantage, of_step = np.zeros((n, k)), np.asarray(estimates(theta, Client((), (), (), trajectory))).reshape(-1)
        for m in rows:
            i, j = state[s[m]], action[a[m]]
            advantage[i, j] += of_step[m] / taken[i, j]
    return {(x, y): d[i] * advantage[i, j] for x, i in state.items() for y, j in action.items() if taken[i, j]}


def as_dict(trajectory: Trajectory, report: Visited) -> dict:
    obs, choice = (
        np.asarray(cells(x.reshape(ROWS * STEPS, -1), ROUNDING)) for x in (trajectory.obs, trajectory.choice)
    )
    value = np.asarray(report.value)
    told = np.flatnonzero(value)
    return {(tuple(map(int, obs[m])), tuple(map(int, choice[m]))): float(value[m]) for m in told}


@cache
def telling(kind: str, actions: Box | None):
    learner = Learner(None, None, None, recent=lambda theta, client: client.memory, log_pi=log_pi, advantages=estimates)  # type: ignore[arg-type]
    return jax.jit(visited(learner, GAMMA, rounding=ROUNDING, sweeps=SWEEPS, advantage=kind, actions=actions))


def reporter(
    trajectory: Trajectory, theta: float, kind: str = "gae", secret=SECRET, actions: Box | None = None
) -> Visited:
    return telling(kind, actions)(jnp.float32(theta), Client(jnp.int32(0), (), (), trajectory), secret)


@pytest.mark.parametrize("kind", ["gae", "model"])
@pytest.mark.parametrize("seed", range(3))
def test_entries_against_dense_matrices(seed, kind):
    trajectory = walk(seed)
    expected, told = dense(trajectory, 0.7, kind), as_dict(trajectory, reporter(trajectory, 0.7, kind))
    assert told.keys() <= expected.keys()  # the only action seen in a state has advantage zero and may be left out
    assert len(told) > 60
    scale = max(map(abs, expected.values()))
    for pair, value in expected.items():
        assert told.get(pair, 0.0) == pytest.approx(value, rel=1e-4, abs=1e-5 * scale)


@pytest.mark.parametrize("kind", ["gae", "model"])
def test_delta_against_dense_matrices(kind):
    """Eq. 23 with unequal weights, the clients seeing different parts of the grid."""
    walks = [walk(seed, states) for seed, states in enumerate((2, 4, 5, 6))]
    weight = np.asarray([1.0, 2.0, 3.0, 4.0], np.float32)
    matrices = [dense(trajectory, 0.7, kind) for trajectory in walks]
    pairs = sorted(set().union(*matrices))
    full = np.array([[matrix.get(pair, 0.0) for pair in pairs] for matrix in matrices])
    mean = (weight / 10.0) @ full
    expected = np.linalg.norm(full, axis=1) - np.linalg.norm(mean[None] - full, axis=1)
    reports = jax.tree.map(lambda *x: jnp.stack(x), *[reporter(trajectory, 0.7, kind) for trajectory in walks])
    scale = np.linalg.norm(full, axis=1).max()
    np.testing.assert_allclose(deltas(reports, weight), expected, rtol=1e-4, atol=1e-6 * scale)


def test_the_merge_matches_names_and_leaves_out_who_has_no_weight():
    pair = names(jnp.arange(4, dtype=jnp.int32)[:, None], SECRET)
    take = lambda *rows: jax.tree.map(lambda x: x[jnp.asarray(rows)], pair)  # noqa: E731
    one = Visited(take(0, 1, 2), jnp.asarray([3.0, 4.0, 0.0]))
    two = Visited(take(1, 3, 0), jnp.asarray([2.0, 1.0, 1.0]))
    three = Visited(take(2, 2, 2), jnp.asarray([0.0, 9.0, 0.0]))
    stack = jax.tree.map(lambda *x: jnp.stack(x), one, two, three)
    # over pairs 0..3: one = (3, 4, 0, 0), two = (1, 2, 0, 1), three = (0, 0, 9, 0); the mean of the first two (2, 3, 0, .5)
    expected = [5 - 2.25**0.5, 6**0.5 - 2.25**0.5, 9 - (4 + 9 + 81 + 0.25) ** 0.5]
    delta, shared = compared(stack, jnp.asarray([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(delta, expected, rtol=1e-5)
    np.testing.assert_allclose(shared, 10 / 11, rtol=1e-6)  # of |3| + |4| + |1| + |2| + |1|, all but pair 3
    np.testing.assert_allclose(compared(stack, jnp.ones(3))[1], 10 / 20, rtol=1e-6)  # pair 2 is three's alone


def test_with_nothing_in_common_delta_ranks_by_norm():
    pair = names(jnp.arange(6, dtype=jnp.int32)[:, None], SECRET)
    apart = Visited(jax.tree.map(lambda x: x.reshape(3, 2), pair), jnp.asarray([[3.0, 4.0], [1.0, 1.0], [0.0, 2.0]]))
    delta, shared = compared(apart, jnp.ones(3))
    assert float(shared) == 0.0
    np.testing.assert_array_equal(np.argsort(delta), np.argsort(np.linalg.norm(np.asarray(apart.value), axis=1)))


def test_the_secret_changes_names_and_nothing_else():
    walks = [walk(seed, states) for seed, states in enumerate((2, 4, 5))]
    told = [[reporter(trajectory, 0.7, secret=secret(of_seed(key))) for trajectory in walks] for key in (1, 2)]
    assert not np.any(np.asarray(told[0][0].names.high) == np.asarray(told[1][0].names.high))
    one, two = (compared(jax.tree.map(lambda *x: jnp.stack(x), *reports), jnp.ones(3)) for reports in told)
    np.testing.assert_array_equal(one[0], two[0])
    assert float(one[1]) == float(two[1]) > 0.5


def test_actions_are_clipped_to_their_box():
    """Every action beyond the bounds is the one at the bound."""
    trajectory = walk(0)
    bounds = Box((1,), (-ROUNDING,), (ROUNDING,))
    wild = trajectory._replace(
        choice=jnp.where(trajectory.choice > 0.5 * ROUNDING, 7.0 + trajectory.reward[..., None], trajectory.choice)
    )
    tame = trajectory._replace(choice=jnp.clip(wild.choice, -ROUNDING, ROUNDING))
    free, clipped, expected = reporter(wild, 0.7), reporter(wild, 0.7, actions=bounds), reporter(tame, 0.7)
    pairs = lambda report: {*zip(*map(np.asarray, report.names), strict=True)}  # noqa: E731
    assert pairs(clipped) == pairs(expected)
    assert len(pairs(clipped)) < 0.7 * len(pairs(free))


def test_alone_a_client_is_its_own_mean():
    report = reporter(walk(0), 0.7)
    alone = jax.tree.map(lambda x: x[None], report)
    norm = np.linalg.norm(np.asarray(report.value))
    np.testing.assert_allclose(deltas(alone, jnp.ones(1)), [norm], rtol=1e-5)


def test_values_of_a_long_path():
    """A path of 400 states, one visit each: V is the discounted reward-to-go, however far it must be carried."""
    steps = jnp.arange(400.0)[None, :, None]
    reward = jnp.zeros((1, 400)).at[0, -1].set(1.0)
    no = jnp.zeros((1, 400), bool)
    trajectory = Trajectory(steps, jnp.zeros((1, 400), jnp.int32), reward, ~no, no.at[0, -1].set(True), no, steps + 1.0)
    model = jax.jit(lambda trajectory: tabular(trajectory, 1.0, SECRET))(trajectory)
    chance = jax.jit(chances)(model, jnp.zeros(400))
    value = jax.jit(lambda model, chance: values(model, chance, 0.99))(model, chance)
    np.testing.assert_allclose(value, 0.99 ** np.arange(399, -1, -1.0), rtol=1e-4)
    np.testing.assert_allclose(advantages(model, value, 0.99), 0.0, atol=1e-5)
    np.testing.assert_allclose(visits(model, chance, 400), 1 / 400, rtol=1e-4)
    np.testing.assert_allclose(visits(model, chance, 10), np.where(np.arange(400) < 10, 0.1, 0.0), rtol=1e-5)


def test_nothing_remembered_says_nothing():
    trajectory = walk(0)
    empty = jax.tree.map(jnp.zeros_like, trajectory)
    report = reporter(empty, 0.7)
    assert not np.any(np.asarray(report.value))
    both = jax.tree.map(lambda *x: jnp.stack(x), report, report)
    np.testing.assert_array_equal(deltas(both, jnp.ones(2)), 0.0)


def test_a_learner_that_remembers_nothing():
    learner = ppo(steps=8, num_envs=1)(cart_pole.environment())
    with pytest.raises(ValueError, match=r"use ppo\(remember=5, warm_up="):
        visited(learner, 0.99, rounding=0.1, sweeps=3)
