"""Policies of the wrong kind, and first parameters that are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mistakes import FED, STEPS, Mistakes, answered, trained

from fedrl.algorithms import fapi, fed_q_learning, fedhapg_m, fedsvrpg_m
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.keys import of_seed
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.greedy import greedy_table
from fedrl.policies.mlp import mlp
from fedrl.policies.probabilities import probability_table
from fedrl.policies.softmax import softmax_table
from fedrl.theory.bit_level import projection_radius

WITH, WITHOUT = fapi.fapi_with_federated_evaluation, fapi.fapi_without_federated_evaluation
GRADIENT = r"needs a policy with a gradient, got a greedy table, .*; pass policy=softmax_table\(\) or policy=mlp"
ITSELF = r"works on the probabilities themselves, got a .*; pass policy=probability_table\(\)"


def q_method(policy):
    return fed_q_learning(eta=0.1, local_steps=2, samples=3, policy=policy)


def from_start(start):
    return trained(pavg(policy=softmax_table(start), **STEPS))


WRONG: Mistakes = {
    "probabilities": (
        lambda: trained(pavg(policy=probability_table(), **STEPS)),
        "got a probability table, whose rows a gradi",
    ),
    "greedy pavg": (lambda: trained(pavg(policy=greedy_table(), **STEPS)), GRADIENT),
    "greedy rs_fedpg": (lambda: trained(rs_fedpg(batch=1, lam=0.1, policy=greedy_table(), **STEPS)), GRADIENT),
    "greedy s_fedpg": (lambda: trained(s_fedpg(batch=1, policy=greedy_table(), **STEPS)), GRADIENT),
    "greedy svrpg": (lambda: trained(fedsvrpg_m(beta=0.5, policy=greedy_table(), **STEPS)), GRADIENT),
    "greedy hapg": (lambda: trained(fedhapg_m(beta=0.5, policy=greedy_table(), **STEPS)), GRADIENT),
    "greedy steps": (
        lambda: trained(fedavg(gradient_learner(reinforce(horizon=3), eta=0.1, local_steps=1, policy=greedy_table()))),
        GRADIENT,
    ),
    "fapi of softmax": (lambda: trained(WITH(policy=softmax_table())), ITSELF),
    "fapi of a network": (lambda: trained(WITHOUT(policy=mlp(4))), ITSELF),
    "fapi of bits": (lambda: trained(WITHOUT(policy=bit_softmax())), ITSELF),
    "Q of a network": (lambda: trained(q_method(mlp(4))), r"action values \[4, 3\], .*; give policy=greedy_table\(\)"),
    "Q of probabilities": (lambda: trained(q_method(probability_table())), r"give policy=greedy_table\(\)"),
    # theta_0
    "shape": (
        lambda: from_start(lambda key, shape: np.zeros((4, 2))),
        r"an array of shape \(4, 3\), got \(4, 2\); write",
    ),
    "a shape of bits": (
        lambda: trained(b_rs_fedpg(batch=1, lam=0.1, policy=bit_softmax(lambda key, shape: np.zeros((4, 3))), **STEPS)),
        r"an array of shape \(4, 3, 2\), got \(4, 3\)",
    ),
    "Q of another shape": (
        lambda: trained(q_method(greedy_table(lambda key, shape: jnp.zeros(3)))),
        r"\(4, 3\), got \(3,\)",
    ),
    "nan": (lambda: from_start(lambda key, shape: np.full(shape, np.nan)), r"finite numbers, got nan at \(0, 0\)"),
    "words": (lambda: from_start(lambda key, shape: "zeros"), "must return an array of numbers, got 'zeros'"),
    "complex": (
        lambda: from_start(lambda key, shape: np.ones(shape, complex)),
        "must return real numbers, got an array of com",
    ),
    "no distributions": (
        lambda: trained(WITH(policy=probability_table(lambda key, shape: np.ones(shape)))),
        "must be distributions, got one that sums to 3 with smallest entry 1",
    ),
    "one argument": (
        lambda: softmax_table(lambda key: 0),
        "cannot be called with 2 arguments; give a function of key and",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_for_each_mistake(name, monkeypatch):
    answered(WRONG[name], monkeypatch)


THETA_0 = {
    "s_fedpg": (s_fedpg(batch=1, policy=softmax_table(lambda key, shape: jnp.full(shape, 0.3)), **STEPS), (4, 3)),
    "rs_fedpg": (
        rs_fedpg(batch=1, lam=0.1, policy=softmax_table(lambda key, shape: jnp.full(shape, 0.3)), **STEPS),
        (4, 3),
    ),
    "b_rs_fedpg": (
        b_rs_fedpg(batch=1, lam=0.1, policy=bit_softmax(lambda key, shape: jnp.full(shape, 0.3)), **STEPS),
        (4, 3, 2),
    ),
    "fed_q_learning": (
        fed_q_learning(eta=0.1, local_steps=2, samples=3, policy=greedy_table(lambda key, shape: jnp.full(shape, 0.3))),
        (4, 3),
    ),
}


@pytest.mark.parametrize("name", THETA_0)
def test_the_first_theta_can_be_given(name):
    build, shape = THETA_0[name]
    algorithm = build(FED)
    theta = algorithm.answer(algorithm.init(of_seed(0)))
    np.testing.assert_array_equal(theta, np.full(shape, 0.3, np.float32))


def test_b_rs_fedpg_projects_a_given_policy_as_its_own():
    """The ball is that of lam, gamma and the policy's bits: R_b(0.1), gamma = 0.8, k = 2."""
    far = bit_softmax(lambda key, shape: jnp.full(shape, 1e6))
    algorithm = b_rs_fedpg(batch=1, lam=0.1, policy=far, **STEPS)(FED)
    (train,), server = algorithm.exchanges, algorithm.init(of_seed(0))
    nothing = jax.tree.map(jnp.zeros_like, server.theta)
    after, _ = train.receive(server, (nothing, ()), train.choose(server, of_seed(0)), of_seed(0))
    np.testing.assert_allclose(after.theta, projection_radius(0.1, 0.8, 2), rtol=1e-6)


def test_lists_and_whole_numbers_become_floats():
    theta = softmax_table(lambda key, shape: [[1, 2, 3]] * 4)(FED.environment).init(of_seed(0))
    assert theta.dtype == jnp.float32
    np.testing.assert_array_equal(theta, np.float32([[1, 2, 3]] * 4))
