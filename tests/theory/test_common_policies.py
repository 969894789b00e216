import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys
from fedrl.environments.tabular import finite, random_mdp, solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.theory import common_policies, counter_examples

GAMMA = 0.9
optimal = jax.jit(solvers.optimal)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def population(draw, clients=3, seed=0):
    rows = [draw(keys.of_seed(seed), jnp.int32(i)) for i in range(clients)]
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *rows)


def test_best_deterministic_is_the_best_of_all():
    env_params = population(random_mdp.sparse(4, 3))
    weight = jnp.array([0.6, 0.3, 0.1])
    J = jax.jit(lambda c: solvers.average_value(env_params, solvers.deterministic(c, 3), GAMMA, weight))
    values = {c: float(J(jnp.array(c))) for c in itertools.product(range(3), repeat=4)}
    best = common_policies.best_deterministic(env_params, GAMMA, weight, chunk=32)  # 81 policies: a ragged last chunk
    np.testing.assert_allclose(best.value, max(values.values()), rtol=1e-13)
    assert tuple(np.argmax(best.pi, axis=-1).tolist()) == max(values, key=values.__getitem__)


def test_enumeration_that_is_too_long_is_refused():
    env_params = MDP(jnp.zeros((2, 12, 5, 12)), jnp.zeros((2, 12, 5)), jnp.zeros((2, 12)))
    with pytest.raises(ValueError, match=r"12 states make 2\.44e\+08 deterministic policies"):
        common_policies.best_deterministic(env_params, GAMMA)


def test_same_kernel_different_rewards_lemma_b4():
    one = random_mdp.dense(4, 3, 0.0)
    env_params = population(one)
    env_params = env_params._replace(reward=jnp.asarray(np.random.default_rng(5).uniform(size=env_params.reward.shape)))
    _, v = optimal(finite.average(env_params), GAMMA)
    single = jnp.dot(env_params.start[0], v)
    np.testing.assert_allclose(common_policies.best_deterministic(env_params, GAMMA).value, single, rtol=1e-12)
    np.testing.assert_allclose(common_policies.best_stationary(env_params, GAMMA).value, single, rtol=1e-8)
    np.testing.assert_allclose(common_policies.best_local_history(env_params, GAMMA), single, rtol=1e-9)
    assert common_policies.best_agent_aware(env_params, GAMMA) > single + 1e-3  # rewards do differ


def test_different_kernels_leave_lemma_b4():
    env_params = population(random_mdp.sparse(4, 3))
    _, v = optimal(finite.average(env_params), GAMMA)
    best = common_policies.best_deterministic(env_params, GAMMA).value
    assert abs(float(best - jnp.dot(env_params.start[0], v))) > 1e-3


@pytest.mark.parametrize(
    ("instance", "optimum"),
    [(counter_examples.lemma_b2, 9.0), (counter_examples.lemma_b3, 900 / 11)],
)
def test_best_stationary_on_the_counter_examples(instance, optimum):
    best = common_policies.best_stationary(instance(), GAMMA)
    np.testing.assert_allclose(best.value, optimum, atol=1e-6)
    np.testing.assert_allclose(best.pi.sum(-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(solvers.average_value(instance(), best.pi, GAMMA), best.value, rtol=1e-13)


def test_best_stationary_on_lemma_b1_against_a_fine_grid():
    env_params = counter_examples.lemma_b1()
    grid = jnp.linspace(0.0, 1.0, 20001)

    def J(q):
        return solvers.average_value(env_params, jnp.stack([jnp.full(2, 0.5), jnp.stack([q, 1.0 - q])]), GAMMA)

    best = common_policies.best_stationary(env_params, GAMMA).value
    top = jnp.max(jax.jit(jax.vmap(J))(grid))
    assert best >= top - 1e-12
    np.testing.assert_allclose(best, top, atol=1e-6)


def test_the_four_classes_are_ordered():
    env_params = counter_examples.lemma_b3()
    values = [
        common_policies.best_deterministic(env_params, GAMMA).value,
        common_policies.best_stationary(env_params, GAMMA).value,
        common_policies.best_local_history(env_params, GAMMA),
        common_policies.best_agent_aware(env_params, GAMMA),
    ]
    assert values[0] < values[1] < values[2] < values[3]
    # one try by either action, then the other if still there: (9/0.1 + 0.81/0.1 * 10) / 2
    np.testing.assert_allclose(values[2], 0.5 * (90 + 81), rtol=1e-10)
    np.testing.assert_allclose(values[3], 90.0, rtol=1e-10)


def test_belief_mdp_of_one_world_is_that_world():
    env_params = population(random_mdp.sparse(4, 3), clients=1)
    single = jnp.dot(env_params.start[0], optimal(jax.tree.map(lambda x: x[0], env_params), GAMMA)[1])
    np.testing.assert_allclose(common_policies.best_local_history(env_params, GAMMA), single, rtol=1e-12)
    finite.check(common_policies.belief_mdp(counter_examples.lemma_b2()))


def test_too_many_posteriors_are_refused():
    with pytest.raises(ValueError, match="more than limit=50 pairs"):
        common_policies.best_local_history(population(random_mdp.dense(3, 2, 0.5), 2), GAMMA, limit=50)
