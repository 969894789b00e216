"""Synthetic, GridWorld and the seven-state tables of Labbi et al. 2025."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys
from fedrl.environments.tabular import finite, grid_world, seven_state, solvers, synthetic
from fedrl.environments.tabular.grid_world import CELLS, CORNER, GOAL
from fedrl.theory.heterogeneity import epsilon_p, kappa_pairs

distance, pairs = jax.jit(epsilon_p), jax.jit(kappa_pairs)
LEFT, RIGHT, DOWN, UP = range(4)


def population(draw, seed=0):
    rows = [draw(keys.of_seed(seed), jnp.int32(i)) for i in range(4)]
    return finite.check(jax.tree.map(lambda *x: np.stack(x), *rows))


@pytest.mark.parametrize("task", [synthetic.synthetic, grid_world.grid_world])
def test_epsilon_mixes_and_bounds_the_distance(task):
    none, some, all_own = (population(task(epsilon)) for epsilon in (0.0, 0.3, 1.0))
    assert distance(none) == 0.0
    assert 0.01 < distance(some) <= 0.6
    np.testing.assert_allclose(some.kernel, 0.7 * none.kernel + 0.3 * all_own.kernel, atol=1e-6)
    assert (some.reward == some.reward[:1]).all()
    np.testing.assert_allclose(some.start, 1.0 / some.start.shape[-1])


@pytest.mark.parametrize("task", [synthetic.synthetic, grid_world.grid_world])
def test_kinds_two_makes_two_environments_as_in_the_published_code(task):
    each, two = pairs(population(task(0.3))), pairs(population(task(0.3, kinds=2)))
    assert np.min(each + np.eye(4)) > 0.01
    assert two[0, 2] == two[1, 3] == 0.0
    assert two[0, 1] > 0.01
    with pytest.raises(ValueError, match="kinds must be None or at least 1"):
        population(task(0.3, kinds=0))


@pytest.mark.parametrize("task", [synthetic.synthetic, grid_world.grid_world])
def test_epsilon_outside_the_unit_interval_is_refused(task):
    with pytest.raises(ValueError, match=r"epsilon must lie in \[0, 1\], got 1.2"):
        task(1.2)


@pytest.mark.parametrize(
    ("draw", "states"),
    [
        (synthetic.synthetic(0.3), 5),
        (synthetic.synthetic(0.3, kinds=2), 5),
        (synthetic.highly_heterogeneous(), 7),
        (grid_world.grid_world(0.3), 8),
        (grid_world.highly_heterogeneous(), 10),
        (seven_state.grid_world(), 7),
    ],
)
def test_worlds_are_traceable_and_follow_the_precision(draw, states):
    for wide, dtype in ((False, jnp.float32), (True, jnp.float64)):
        with jax.enable_x64(wide):
            env_params = jax.eval_shape(jax.vmap(draw, (None, 0)), keys.of_seed(0), jnp.arange(3, dtype=jnp.int32))
            assert [x.shape for x in env_params] == [(3, states, 4, states), (3, states, 4), (3, states)]
            assert {x.dtype for x in env_params} == {jnp.dtype(dtype)}


def test_synthetic_rows_are_uniform_on_the_simplex():
    rows = synthetic.simplex_rows(keys.of_seed(0), (20000, 5))
    np.testing.assert_allclose(rows.mean(0), 0.2, atol=0.005)
    np.testing.assert_allclose(np.var(rows, axis=0), 4 / (25 * 6), atol=0.001)  # Dirichlet(1): (n-1)/(n^2 (n+1))


def test_highly_heterogeneous_synthetic_gate():
    env_params = population(synthetic.highly_heterogeneous())
    assert env_params.kernel.shape == (4, 7, 4, 7)
    even, odd = np.asarray(env_params.kernel[0]), np.asarray(env_params.kernel[1])
    np.testing.assert_array_equal(even[0], np.eye(7)[[5, 5, 0, 0]])
    np.testing.assert_array_equal(odd[0], np.eye(7)[[0, 0, 6, 6]])
    np.testing.assert_array_equal(even[1:], odd[1:])
    assert (even[1:5, :, 5:] == 0).all()
    assert (even[1:5, :, :5] > 0).all()
    np.testing.assert_array_equal(even[5:], np.repeat(np.eye(7)[5:, None], 4, axis=1))
    assert (np.asarray(env_params.reward)[:, 5:] == 1.0).all()
    np.testing.assert_array_equal(env_params.kernel[2], env_params.kernel[0])
    np.testing.assert_allclose(env_params.start, 1 / 7)
    with pytest.raises(ValueError, match="must be even, got 3"):
        synthetic.highly_heterogeneous(5, 3)


def test_grid_world_moves():
    kernel = np.asarray(grid_world.grid_world(0.0)(keys.of_seed(0), 0).kernel)
    at = {cell: i for i, cell in enumerate(CELLS)}
    assert len(CELLS) == 8
    assert (1, 1) not in at
    np.testing.assert_allclose(kernel[at[0, 0], RIGHT, [at[0, 1], at[1, 0]]], [0.8, 0.2], atol=1e-6)
    np.testing.assert_allclose(kernel[at[1, 2], DOWN, [at[2, 2], at[0, 2]]], [0.8, 0.2], atol=1e-6)
    assert kernel[at[0, 0], LEFT, at[0, 0]] == 1.0  # border
    assert kernel[at[0, 1], DOWN, at[0, 1]] == 1.0  # wall
    assert kernel[at[2, 1], UP, at[2, 1]] == 1.0  # wall


def test_grid_world_individual_kernels_move_to_neighbours_only():
    kernel = np.asarray(population(grid_world.grid_world(1.0)).kernel)
    for i, here in enumerate(CELLS):
        for j, there in enumerate(CELLS):
            adjacent = abs(here[0] - there[0]) + abs(here[1] - there[1]) == 1
            assert ((kernel[:, i, :, j] > 0) == adjacent).all()


def test_grid_world_reward_and_starts():
    env_params = grid_world.grid_world(0.3)(keys.of_seed(0), 0)
    assert CELLS[GOAL] == (2, 2)
    np.testing.assert_array_equal(env_params.reward.sum(1), 4 * np.eye(8)[GOAL])
    trained = grid_world.grid_world(0.3, start=CORNER)(keys.of_seed(0), 0)
    np.testing.assert_array_equal(trained.start, np.eye(8)[0])
    assert grid_world.GAMMA == 0.95
    with pytest.raises(ValueError, match="8 cells, got shape"):
        grid_world.grid_world(0.3, start=np.ones(3) / 3)


def test_highly_heterogeneous_grid_world():
    env_params = population(grid_world.highly_heterogeneous())
    assert env_params.kernel.shape == (4, 10, 4, 10)
    even, odd = np.asarray(env_params.kernel[0]), np.asarray(env_params.kernel[1])
    np.testing.assert_array_equal(even[GOAL], np.eye(10)[[8, 8, GOAL, GOAL]])
    np.testing.assert_array_equal(odd[GOAL], np.eye(10)[[GOAL, GOAL, 9, 9]])
    into_goal = {CELLS[i] for i in np.flatnonzero(even[:8, :, GOAL].sum(1)) if i != GOAL}
    assert into_goal == {(1, 2)}
    np.testing.assert_array_equal(env_params.reward.sum(2)[0], [0] * 8 + [4, 4])
    # either type alone can collect for ever from every cell
    for mdp in (jax.tree.map(lambda x, i=i: x[i], env_params) for i in (0, 1)):
        _, v = jax.jit(solvers.optimal)(mdp, 0.95)
        assert float(jnp.min(v)) > 5.0


def test_seven_state_tables():
    env_params = population(seven_state.synthetic())
    assert env_params.kernel.shape == (4, 7, 4, 7)
    first, second = np.asarray(env_params.kernel[0]), np.asarray(env_params.kernel[1])
    np.testing.assert_array_equal(first[0], np.eye(7)[[0, 0, 1, 1]])
    np.testing.assert_array_equal(second[0], np.eye(7)[[2, 2, 0, 0]])
    np.testing.assert_array_equal(first[1:], second[1:])
    np.testing.assert_allclose(first[4, 1], [0, 0, 0, 0.5, 0.2, 0.2, 0.1], atol=1e-7)
    np.testing.assert_allclose(first[6, 3], [0.9, 0, 0, 0, 0, 0, 0.1], atol=1e-7)
    np.testing.assert_allclose(env_params.reward[0].sum(1), [0, 4, 4, 0.3, 0.2, 0.2, 0.35], atol=1e-6)
    np.testing.assert_allclose(env_params.start[0], seven_state.TRAINING_START, atol=1e-7)


def test_seven_state_variants():
    training = seven_state.grid_world()(keys.of_seed(0), 1)
    evaluation = seven_state.grid_world(start=seven_state.EVALUATION_START)(keys.of_seed(5), 1)
    np.testing.assert_array_equal(training.kernel, evaluation.kernel)
    np.testing.assert_array_equal(training.kernel, seven_state.synthetic()(keys.of_seed(0), 1).kernel)
    np.testing.assert_allclose(evaluation.start, 1 / 7)
    np.testing.assert_allclose(training.reward[1:3], [[0, 0, 1, 0.5], [0, 0.5, 0, 0]])
    with pytest.raises(ValueError, match="7 probabilities"):
        seven_state.synthetic(start=np.ones(3) / 3)
