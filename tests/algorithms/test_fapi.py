"""FAPI of Xie & Song 2025, Algorithms 1 and 2, in the engines; a minute cold, 25 s with compiled programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation, random_mdps

from fedrl import keys
from fedrl.algorithms.fapi import fapi_with_federated_evaluation, fapi_without_federated_evaluation
from fedrl.algorithms.fapi_steps import bellman_sweeps, greedy_step
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.tabular import finite, solvers
from fedrl.evaluation import exact_return
from fedrl.federations.federation import Federation
from fedrl.selection.participation import uniform
from fedrl.theory import fapi as measured
from fedrl.theory import fapi_bounds as bounds

GAMMA, CLIENTS, STATES = 0.8, 4, 4
WEIGHT = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
Q = WEIGHT / WEIGHT.sum()
APPROXIMATE = {"evaluate": bellman_sweeps(3), "improve": greedy_step(0.7)}
METHODS = {
    "algorithm 1": fapi_with_federated_evaluation(),
    "algorithm 1, approximate": fapi_with_federated_evaluation(**APPROXIMATE),
    "algorithm 1, cohorts": fapi_with_federated_evaluation(**APPROXIMATE, selection=uniform(2), evaluators=uniform(3)),
    "algorithm 2": fapi_without_federated_evaluation(),
    "algorithm 2, approximate": fapi_without_federated_evaluation(**APPROXIMATE),
    "algorithm 2, cohorts": fapi_without_federated_evaluation(**APPROXIMATE, selection=uniform(2)),
}


def play(method, where, rounds, engine=None):
    algorithm = method(where)
    engine = (engine or fused("map"))(algorithm, where, exact_return()(algorithm, where), 1)
    state, _ = engine.init([3])
    return algorithm, *engine.advance(state, 0, rounds)


def bits(tree):
    leaves = jax.tree.leaves(tree)
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x).tobytes()
        for x in leaves
    ]


@pytest.mark.parametrize("name", ["algorithm 1", "algorithm 1, cohorts", "algorithm 2", "algorithm 2, cohorts"])
def test_engines_agree_to_the_bit(name):
    where = federation(CLIENTS, weight=WEIGHT)
    assert bits(play(METHODS[name], where, 4)[1:]) == bits(play(METHODS[name], where, 4, one_at_a_time())[1:])


def by_hand(rounds, *, centrally, sweeps, step, cohorts=None):
    """Both algorithms in NumPy; cohorts[t] are the ids that improve in round t."""
    kernel, reward, _ = (np.asarray(x, np.float64) for x in random_mdps(CLIENTS))
    pi, values, v = np.full((STATES, 3), 1 / 3), np.zeros((CLIENTS, STATES)), np.zeros(STATES)
    for t in range(rounds):
        chosen = np.arange(CLIENTS) if cohorts is None else cohorts[t]
        for n in range(CLIENTS) if centrally else chosen:
            chain, paid = np.einsum("sa,sat->st", pi, kernel[n]), (pi * reward[n]).sum(-1)
            if sweeps is None:
                values[n] = np.linalg.solve(np.eye(STATES) - GAMMA * chain, paid)
            else:
                values[n] = v if centrally else values[n]
                for _ in range(sweeps):
                    values[n] = paid + GAMMA * chain @ values[n]
        v = Q @ values
        best = [(reward[n] + GAMMA * kernel[n] @ (v if centrally else values[n])).argmax(-1) for n in chosen]
        pis = np.stack([(1 - step) * pi + step * np.eye(3)[choice] for choice in best])
        pi = np.tensordot(Q[chosen] / Q[chosen].sum(), pis, axes=1)
    return pi, v, values


@pytest.mark.parametrize("centrally", [True, False], ids=["algorithm 1", "algorithm 2"])
@pytest.mark.parametrize(("sweeps", "step", "some"), [(None, 1.0, False), (3, 0.7, False), (3, 0.7, True)])
def test_against_the_pseudocode(centrally, sweeps, step, some):
    make = fapi_with_federated_evaluation if centrally else fapi_without_federated_evaluation
    options = {"selection": uniform(2)} if some else {}
    method = make(evaluate=bellman_sweeps(sweeps), improve=greedy_step(step), **options)
    where = federation(CLIENTS, weight=WEIGHT)
    algorithm, state, _ = play(method, where, 5)
    cohorts = None
    if some:
        rounds = [keys.of(keys.of_seed(3), "round", t, "train", "choose") for t in range(5)]
        cohorts = [np.asarray(algorithm.exchanges[-1].choose(None, key).ids) for key in rounds]
        assert len({tuple(ids) for ids in cohorts}) > 1
    pi, v, values = by_hand(5, centrally=centrally, sweeps=sweeps, step=step, cohorts=cohorts)
    np.testing.assert_allclose(state.server.theta[0], pi, atol=1e-5)
    if centrally:
        np.testing.assert_allclose(state.server.kept[0], v, atol=1e-5)
    else:  # what a client keeps is its own; one not asked keeps what it had
        np.testing.assert_allclose(state.clients.memory.w[0], values, atol=1e-5)


@pytest.mark.parametrize("name", ["algorithm 1", "algorithm 1, approximate", "algorithm 2"])
def test_equal_clients_find_the_optimal_policy(name):
    env_params = random_mdps(CLIENTS, kappa=0.0)
    one = jax.tree.map(lambda x: x[0], env_params)
    choice, v = solvers.optimal(one, GAMMA)
    _, state, metrics = play(METHODS[name], Federation(finite.environment(STATES, 3, GAMMA), env_params), 40)
    np.testing.assert_allclose(state.server.theta[0], solvers.deterministic(choice, 3), atol=1e-6)
    np.testing.assert_allclose(metrics["measure/return"][0, -1], jnp.dot(one.start, v), rtol=1e-5)
    assert int(metrics["train/env_steps"].sum()) == 0


def test_with_equal_clients_the_algorithms_are_one():
    where = Federation(finite.environment(STATES, 3, GAMMA), random_mdps(CLIENTS, kappa=0.0))
    ours, theirs = (play(METHODS[f"algorithm {i}, approximate"], where, 6)[1] for i in (1, 2))
    np.testing.assert_array_equal(ours.server.theta, theirs.server.theta)
    np.testing.assert_array_equal(jnp.broadcast_to(ours.server.kept[:, None], (1, 4, 4)), theirs.clients.memory.w)


@pytest.mark.parametrize("centrally", [True, False], ids=["algorithm 1", "algorithm 2"])
def test_theorem_10_on_what_was_learnt(centrally):
    """Exact evaluation and greedy improvement: only heterogeneity is left in the bound."""
    env_params, q = random_mdps(CLIENTS), jnp.asarray(Q)
    _, state, _ = play(METHODS[f"algorithm {2 - centrally}"], federation(CLIENTS, weight=WEIGHT), 40)
    level = measured.levels(env_params, q)
    epsilon = (
        bounds.lemma_5(GAMMA, 1.0, level.imaginary, 0.0) if centrally else bounds.lemma_6(GAMMA, 1.0, *level, 0.0, 0.0)
    )
    bound = bounds.theorem_10(GAMMA, 1.0, level.imaginary, epsilon, bounds.equation_10(GAMMA, 1.0, level[0], 0.0))
    choice, _ = solvers.optimal(finite.average(env_params, q), GAMMA)
    best = measured.average_values(env_params, solvers.deterministic(choice, 3), GAMMA, q)
    learnt = measured.average_values(env_params, state.server.theta[0], GAMMA, q)
    assert jnp.max(jnp.abs(learnt - best)) <= bound
    assert jnp.max(jnp.abs(learnt - best)) <= 0.05 * jnp.max(best)  # and far better than that


@pytest.mark.parametrize("name", ["algorithm 1", "algorithm 2"])
def test_nobody_answers(name):
    algorithm = METHODS[name](federation(CLIENTS))
    server = algorithm.init(keys.of_seed(0))
    for exchange in algorithm.exchanges:
        asked = exchange.choose(server, keys.of_seed(0))
        nobody = asked._replace(present=jnp.zeros_like(asked.present))
        part = server.kept if exchange.name == "evaluate-policy" else server.theta
        uploads = jnp.ones((CLIENTS, *part.shape))
        sent = (uploads, ()) if exchange.name == "train" else uploads
        after, _ = exchange.receive(server, exchange.combine(sent, nobody), nobody, keys.of_seed(0))
        assert bits(after._replace(round=server.round)) == bits(server)


def test_settings_outside_their_range():
    with pytest.raises(ValueError, match="sweeps must be at least 1, or None"):
        bellman_sweeps(0)
    with pytest.raises(ValueError, match="step must lie in"):
        greedy_step(1.5)
