"""Every generalisation equals FedAvg bit for bit at its trivial setting. These pin the meaning of the whole library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl import keys, train
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.evaluation import exact_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.proximal import proximal
from fedrl.learners.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.softmax import softmax_table
from fedrl.rollouts.episodes import sampler
from fedrl.selection.participation import uniform, weighted
from fedrl.types import Client, Trajectory

STEPS = {"eta": 0.1, "local_steps": 3}
SAMPLING = {"horizon": 8, "batch": 2}
ROUNDS = 5


def learnt(method, over: str = "map", **options) -> bytes:
    return b"".join(x.tobytes() for x in jax.tree.leaves(run(method, over, **options).theta))


def run(method, over: str = "map", **options):
    return train(method, federation(4, **options), rounds=ROUNDS, seed=3, engine=fused(over))


@pytest.fixture(scope="module")
def plain() -> bytes:
    return learnt(pavg(**STEPS, **SAMPLING))


REDUCTIONS = {
    "FedSVRPG-M, beta = 1, lambda = eta K": lambda: fedsvrpg_m(beta=1.0, **STEPS, **SAMPLING),
    "tau_i = tau for all": lambda: fedavg(
        gradient_learner(reinforce(**SAMPLING), **STEPS, steps_of=lambda client, key: jnp.int32(STEPS["local_steps"]))
    ),
    "uniform participation of all": lambda: pavg(**STEPS, **SAMPLING, selection=uniform(4)),
    "weighted participation of all": lambda: pavg(**STEPS, **SAMPLING, selection=weighted(4)),
    "RS-FedPG, lambda = 0": lambda: rs_fedpg(lam=0.0, **STEPS, **SAMPLING),
    "FedProx, mu = 0": lambda: fedavg(gradient_learner(proximal(reinforce(**SAMPLING), mu=0.0), **STEPS)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduces_to_fedavg(name, plain):
    assert learnt(REDUCTIONS[name]()) == plain


def by_hand(server_step: float) -> np.ndarray:
    """S-FedPG (Labbi et al. 2025, Algorithm 1 and Eq. 6) in loops and float64; only acting is the library's.

    A step is the mean over episodes of sum_t (sum of gamma^p r_p from p = t on) (1{a = a_t} - pi(a | s_t)) at row s_t.
    """
    where = federation(4)
    policy = softmax_table()(where.environment)
    act = jax.jit(sampler(where.environment, policy, **SAMPLING))
    theta = np.zeros((4, 3))
    for number in range(ROUNDS):
        moved = np.zeros_like(theta)
        for i in range(4):
            client = Client(jnp.int32(i), jax.tree.map(lambda x, i=i: x[i], where.env_params), (), ())
            local = theta.copy()
            for y in range(STEPS["local_steps"]):
                key = keys.of(keys.of_seed(3), "round", number, "train", "client", i, "step", y)
                local += STEPS["eta"] * gradient(local, act(jnp.asarray(local, jnp.float32), client, key))
            moved += (local - theta) / 4
        theta = theta + server_step * moved
    return theta


def gradient(theta: np.ndarray, seen: Trajectory) -> np.ndarray:
    found, pi = np.zeros_like(theta), np.exp(theta) / np.exp(theta).sum(axis=1, keepdims=True)
    for states, actions, rewards in zip(*map(np.asarray, (seen.obs, seen.choice, seen.reward)), strict=True):
        earned = 0.8 ** np.arange(len(rewards)) * rewards
        for t, (state, action) in enumerate(zip(states, actions, strict=True)):
            found[state] += earned[t:].sum() * (np.eye(3)[action] - pi[state]) / SAMPLING["batch"]
    return found


@pytest.mark.parametrize("server_step", [1.0, 0.5])
def test_s_fedpg_by_hand(server_step):
    """Five rounds, and FedAvg's server step, against the loops above."""
    found = run(s_fedpg(**STEPS, **SAMPLING, server_step=server_step)).theta[0]
    np.testing.assert_allclose(found, by_hand(server_step), atol=2e-5)
    assert np.abs(found).max() > 0.05


def test_half_a_server_step_is_half_the_way():
    """Of the first round, to the bit: the logits start at zero."""
    whole, half = (
        train(pavg(**STEPS, **SAMPLING, server_step=step), federation(4), rounds=1, seed=3).theta for step in (1.0, 0.5)
    )
    assert (0.5 * whole).tobytes() == half.tobytes()


def test_fewer_local_steps_change_it(plain):
    method = fedavg(
        gradient_learner(reinforce(**SAMPLING), **STEPS, steps_of=lambda client, key: jnp.minimum(client.id, 2))
    )
    assert learnt(method) != plain


def test_an_infinite_ball_is_no_projection():
    wide = learnt(b_rs_fedpg(lam=0.1, radius=float("inf"), **STEPS, **SAMPLING))

    def unconfined(federation):
        direction = reinforce(lam=0.1, **SAMPLING)
        return fedavg(gradient_learner(direction, **STEPS, policy=bit_softmax()))(federation)

    assert learnt(unconfined) == wide
    assert learnt(b_rs_fedpg(lam=0.1, radius=0.05, **STEPS, **SAMPLING)) != wide


def test_two_actions_make_b_rs_fedpg_rs_fedpg():
    """Equal up to rounding: the two tables have different shapes, so their programs are not the same."""
    bits = run(b_rs_fedpg(lam=0.1, radius=float("inf"), **STEPS, **SAMPLING), actions=2).theta
    table = run(rs_fedpg(lam=0.1, **STEPS, **SAMPLING), actions=2).theta
    np.testing.assert_allclose(np.asarray(bits).reshape(np.shape(table)), table, atol=1e-6)


def test_equal_weights_are_no_weights(plain):
    assert learnt(pavg(**STEPS, **SAMPLING), weight=jnp.full((4,), 2.0)) == plain


def test_an_added_measurement_changes_nothing(plain):
    measured = train(
        pavg(**STEPS, **SAMPLING),
        federation(4),
        rounds=ROUNDS,
        seed=3,
        evaluation=exact_return(uniform(2)),
        eval_every=2,
    )
    assert np.asarray(measured.theta).tobytes() == plain


def test_a_seed_is_the_same_alone_and_among_others():
    many = train(pavg(**STEPS, **SAMPLING), federation(4), rounds=ROUNDS, seed=1, seeds=3)
    one = train(pavg(**STEPS, **SAMPLING), federation(4), rounds=ROUNDS, seed=3)
    assert np.asarray(many.theta)[2].tobytes() == np.asarray(one.theta)[0].tobytes()
