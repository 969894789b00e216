"""Every generalisation equals FedAvg bit for bit at its trivial setting. These pin the meaning of the whole library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from federations import federation

from fedrl import train
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.local.ascent import steps_along
from fedrl.local.proximal import proximal
from fedrl.local.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.records.measure import exact_return
from fedrl.selection.participation import uniform, weighted

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
        steps_along(reinforce(**SAMPLING), **STEPS, steps_of=lambda client, key: jnp.int32(STEPS["local_steps"]))
    ),
    "uniform participation of all": lambda: pavg(**STEPS, **SAMPLING, participation=uniform(4)),
    "weighted participation of all": lambda: pavg(**STEPS, **SAMPLING, participation=weighted(4)),
    "S-FedPG": lambda: s_fedpg(**STEPS, **SAMPLING),
    "RS-FedPG, lambda = 0": lambda: rs_fedpg(lam=0.0, **STEPS, **SAMPLING),
    "FedProx, mu = 0": lambda: fedavg(steps_along(proximal(reinforce(**SAMPLING), mu=0.0), **STEPS)),
    "server step 1": lambda: pavg(**STEPS, **SAMPLING, server_step=1.0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduces_to_fedavg(name, plain):
    assert learnt(REDUCTIONS[name]()) == plain


def test_fewer_local_steps_change_it(plain):
    method = fedavg(steps_along(reinforce(**SAMPLING), **STEPS, steps_of=lambda client, key: jnp.minimum(client.id, 2)))
    assert learnt(method) != plain


def test_an_infinite_ball_is_no_projection():
    wide = learnt(b_rs_fedpg(lam=0.1, radius=float("inf"), **STEPS, **SAMPLING))

    def unconfined(federation):
        direction = reinforce(lam=0.1, **SAMPLING)
        return fedavg(steps_along(direction, **STEPS, policy=bit_softmax()))(federation)

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
        pavg(**STEPS, **SAMPLING), federation(4), rounds=ROUNDS, seed=3, measure=exact_return(uniform(2)), every=2
    )
    assert np.asarray(measured.theta).tobytes() == plain


def test_a_seed_is_the_same_alone_and_among_others():
    many = train(pavg(**STEPS, **SAMPLING), federation(4), rounds=ROUNDS, seed=1, seeds=3)
    one = train(pavg(**STEPS, **SAMPLING), federation(4), rounds=ROUNDS, seed=3)
    assert np.asarray(many.theta)[2].tobytes() == np.asarray(one.theta)[0].tobytes()
