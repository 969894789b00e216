import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl.federations.federation import Federation
from fedrl.keys import of_seed
from fedrl.selection.participation import draw_subset, everyone, uniform, weighted


@pytest.mark.parametrize(("population", "size"), [(1, 1), (7, 7), (40, 3), (1_000_000, 20)])
def test_a_subset_is_a_subset(population, size):
    drawn = np.asarray(jax.vmap(lambda k: draw_subset(k, population, size))(jax.random.split(of_seed(0), 200)))
    assert all(len(set(row)) == size for row in drawn.tolist())
    assert drawn.min() >= 0
    assert drawn.max() < population


def test_every_subset_is_equally_likely():
    draws = np.sort(np.asarray(jax.vmap(lambda k: draw_subset(k, 5, 2))(jax.random.split(of_seed(0), 20_000))), axis=1)
    _, count = np.unique(draws, axis=0, return_counts=True)
    assert len(count) == 10
    np.testing.assert_allclose(count / 20_000, 0.1, atol=4 * np.sqrt(0.1 * 0.9 / 20_000))


def test_uniform_cohorts_count_by_weight():
    where = federation(4, weight=jnp.asarray([1.0, 2.0, 3.0, 4.0]))
    cohort = uniform(2)(where, None).choose((), of_seed(1))
    q = np.asarray([1.0, 2.0, 3.0, 4.0])[np.asarray(cohort.ids)]
    np.testing.assert_allclose(cohort.weight, q / q.sum(), rtol=1e-6)
    assert np.all(np.diff(cohort.ids) > 0)


def test_weighted_draws_follow_the_weights():
    where = federation(4, weight=jnp.asarray([1.0, 2.0, 3.0, 4.0]))
    ids = np.asarray(
        jax.vmap(lambda k: weighted(1)(where, None).choose((), k).ids[0])(jax.random.split(of_seed(0), 20_000))
    )
    np.testing.assert_allclose(np.bincount(ids) / 20_000, [0.1, 0.2, 0.3, 0.4], atol=4 * np.sqrt(0.25 / 20_000))
    np.testing.assert_allclose(weighted(2)(where, None).choose((), of_seed(0)).weight, 0.5)


def test_everyone_is_everyone():
    np.testing.assert_array_equal(everyone()(federation(3), None).choose((), of_seed(0)).ids, [0, 1, 2])


@pytest.mark.parametrize("rule", [uniform, weighted])
def test_more_participants_than_clients(rule):
    with pytest.raises(
        ValueError, match="5 clients per round requested, but the federation has 4; choose between 1 and 4"
    ):
        rule(5)(federation(4), None)


def test_bad_federations():
    env_params = federation(3).env_params
    environment = federation(3).environment
    with pytest.raises(ValueError, match="kernel row \\(0, 0, 0\\) is not a distribution: it sums to 1.1"):
        Federation(environment, env_params._replace(kernel=env_params.kernel * 1.1))
    with pytest.raises(ValueError, match="reward \\(1, 2, 0\\) is nan"):
        Federation(environment, env_params._replace(reward=env_params.reward.at[1, 2, 0].set(jnp.nan)))
    with pytest.raises(ValueError, match="env_params is a function, so clients must be at least 1, got None"):
        Federation(environment, lambda key, i: env_params)
    with pytest.raises(ValueError, match="same leading client axis"):
        Federation(environment, env_params, clients=7)
    with pytest.raises(ValueError, match="3 positive finite numbers"):
        Federation(environment, env_params, weight=jnp.ones(4))
    with pytest.raises(ValueError, match="strictly between 0 and 1, got 1.0"):
        federation(3, gamma=1.0)
