import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl import keys
from fedrl.environments.tabular import finite, random_mdp
from fedrl.theory.heterogeneity import epsilon_p

GENERATORS = (random_mdp.dense, random_mdp.orthogonal, random_mdp.sparse)
KAPPAS = (0.0, 0.3, 1.0)
distance = jax.jit(epsilon_p)


def population(draw, seed, clients=4):
    return jax.tree.map(lambda *x: np.stack(x), *(draw(keys.of_seed(seed), jnp.int32(i)) for i in range(clients)))


def family(generator, seed, states=4):
    """Populations of kappa = 0, 0.3, 1, and of kappa = 0.3 with client 0 nominal, all from one seed."""
    draws = [generator(states, 3, kappa) for kappa in KAPPAS] + [generator(states, 3, 0.3, nominal_first=True)]
    return [population(draw, seed) for draw in draws]


@pytest.mark.parametrize("generator", GENERATORS)
def test_rows_are_distributions_and_distance_is_at_most_twice_kappa(generator):
    @settings(max_examples=10, deadline=None)
    @given(st.integers(0, 2**31 - 1))
    def check(seed):
        for kappa, env_params in zip(KAPPAS, family(generator, seed), strict=False):
            reward = np.asarray(finite.check(env_params).reward)
            apart = float(distance(env_params))
            assert env_params.kernel.shape == (4, 4, 3, 4)
            assert apart <= 2 * kappa + 1e-5
            assert (apart > 0.01) == (kappa > 0.0)
            assert (reward == reward[:1]).all()
            assert ((reward >= 0.0) & (reward <= 1.0)).all()
            np.testing.assert_allclose(env_params.start, 0.25)

    check()


@pytest.mark.parametrize("generator", GENERATORS)
def test_kappa_mixes_the_clients_own_kernel_with_the_nominal_one(generator):
    nominal, mixed, own, first = (np.asarray(env_params.kernel) for env_params in family(generator, 3))
    np.testing.assert_allclose(mixed, 0.3 * own + 0.7 * nominal, atol=1e-6)
    np.testing.assert_allclose(first[0], nominal[0], atol=1e-6)  # client 0 left unperturbed
    np.testing.assert_allclose(first[1:], mixed[1:], atol=1e-6)
    assert np.max(np.abs(mixed[0] - nominal[0])) > 0.01


@pytest.mark.parametrize("states", [2, 4])  # two states: half of all masks need the repair
def test_orthogonal_worlds_share_no_successor_with_the_nominal_one(states):
    for seed in range(10):
        nominal, _, own, _ = (np.asarray(finite.check(w).kernel) for w in family(random_mdp.orthogonal, seed, states))
        assert (nominal * own).max() == 0.0
        assert ((own > 0) == (own[:1] > 0)).all()
        assert ((own > 0) ^ (nominal > 0)).all()


def test_masks_have_the_stated_density():
    def density(generator):
        return np.mean([population(generator(4, 3, 1.0), seed).kernel > 0 for seed in range(40)])

    assert abs(density(random_mdp.dense) - 1.0) == 0.0
    assert abs(density(random_mdp.orthogonal) - 0.5) < 0.04  # all clients of a seed share the mask
    assert abs(density(random_mdp.sparse) - (0.2 + 0.8**4 / 4)) < 0.02  # an empty row gets one entry
    own = population(random_mdp.sparse(4, 3), 0).kernel > 0
    assert (own[0] != own[1]).any()


def test_a_client_is_a_function_of_its_id_alone_jitted_and_vmapped_or_not():
    env_params = random_mdp.dense(4, 3, 0.3)
    traced = jax.jit(lambda kappa, ids: jax.vmap(random_mdp.dense(4, 3, kappa), (None, 0))(keys.of_seed(9), ids))
    together = traced(0.3, jnp.array([3, 1], jnp.int32))
    alone = env_params(keys.of_seed(9), 3)
    for one, stack in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, stack[0], rtol=1e-6)
    assert np.max(np.abs(together.kernel[1] - together.kernel[0])) > 0.01


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("kappa", [-0.1, 1.5, float("nan")])
def test_kappa_outside_the_unit_interval_is_refused(generator, kappa):
    with pytest.raises(ValueError, match=r"kappa must lie in \[0, 1\], got"):
        generator(4, 3, kappa)


def test_orthogonal_needs_two_states():
    with pytest.raises(ValueError, match="states >= 2"):
        random_mdp.orthogonal(1, 3, 0.5)


def test_conflict_moves_rewards_apart_and_leaves_their_mean():
    draw = random_mdp.dense(4, 3, 0.3)
    plain, apart = population(draw, 5), population(random_mdp.conflicting(draw, 2.0), 5)
    np.testing.assert_array_equal(apart.kernel, plain.kernel)
    z = (apart.reward[0] - plain.reward[0]) / 2.0
    assert np.abs(z).max() <= 1.0
    assert z.std() > 0.3  # of a uniform one: 0.58
    for client in range(4):
        np.testing.assert_allclose(apart.reward[client] - plain.reward[client], (-1) ** client * 2.0 * z, atol=1e-6)
    np.testing.assert_allclose(apart.reward.mean(axis=0), plain.reward.mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(population(random_mdp.conflicting(draw, 0.0), 5).reward, plain.reward)
