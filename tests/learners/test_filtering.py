"""Filters that are pooled: what the server keeps and sends is the moments of everything all clients have seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.actor_critics import PASSES, POLES, TINY

from fedrl.aggregation.mean import mean
from fedrl.aggregation.median import median
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.fused import fused
from fedrl.evaluation import sampled_return
from fedrl.learners.filtering import Theta, filtering, pooling
from fedrl.learners.ppo import ppo
from fedrl.policies.filtered import Filters, Moments
from fedrl.types import Channel, Cohort, Trajectory

FILTERS = filtering(2, observations=True, rewards=True)
EVERYONE = Cohort(jnp.arange(3), jnp.full(3, 1 / 3), jnp.ones(3, bool), jnp.zeros(3, jnp.int32))


def trajectory(rows: np.ndarray) -> Trajectory:
    """A roll-out of these observations, each earning its first number."""
    obs, flags = jnp.asarray(rows[None], jnp.float32), jnp.ones((1, len(rows)), bool)
    return Trajectory(obs, jnp.zeros((1, len(rows))), obs[..., 0], flags, ~flags, ~flags, obs)


def of_all(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows.mean(axis=0), rows.std(axis=0, ddof=1)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.floats(-100, 100))
def test_two_rounds_add_up_to_all_that_was_seen(seed, offset):
    rows = np.random.default_rng(seed).normal(offset, 3.0, (2, 3, 20, 2))
    theta = Theta(jnp.zeros(1), jnp.zeros(1), FILTERS.fresh())
    for of_round in rows:
        each = [Theta(jnp.ones(1), jnp.ones(1), FILTERS.update(FILTERS.fresh(), trajectory(x))) for x in of_round]
        uploads = jax.tree.map(lambda *x: jnp.stack(x), *each)
        theta = pooling.add(theta, pooling.combine(uploads, EVERYONE, mean), 0.5)
    assert float(theta.actor[0]) == 1.0  # two steps of a half; moments know no step
    assert float(theta.filters.obs.total) == float(theta.filters.reward.total) == 120
    average, spread = of_all(rows.reshape(-1, 2))
    np.testing.assert_allclose(theta.filters.obs.mean, average, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose((theta.filters.obs.squares / 119) ** 0.5, spread, rtol=1e-3)
    np.testing.assert_allclose(theta.filters.reward.mean, average[:1], rtol=1e-4, atol=1e-4)


def test_what_is_not_filtered_does_not_travel():
    alone = filtering(2, observations=False, rewards=False)
    assert not jax.tree.leaves(alone.update(alone.fresh(), trajectory(np.ones((3, 2)))))
    assert alone.look(alone.fresh(), trajectory(np.ones((3, 2)))).obs[0, 0, 0] == 1.0


@pytest.mark.parametrize("rule", [mean, median])
def test_filters_go_through_the_same_channel_and_rule_as_parameters(rule):
    """A channel that doubles what is uploaded doubles the moments, too; the log counts steps, the server observations."""
    doubling = Channel(
        encode=lambda upload, cohort, slot, key: jax.tree.map(lambda x: 2 * x, upload),
        decode=lambda aggregate, cohort, key: aggregate,
    )
    method = fedavg(ppo(**TINY | PASSES), combine=rule, channel=doubling)
    algorithm = method(POLES)
    play = fused("map")(algorithm, POLES, sampled_return(1, horizon=5)(algorithm, POLES), 1)
    state, _ = play.init([0])
    state, metrics = play.advance(state, 0, 1)
    assert float(state.server.theta.filters.obs.total[0]) == 2 * int(metrics["train/env_steps"][0, 0])
    play.close()


def test_a_robust_rule_keeps_a_liar_out_of_the_filters():
    honest = [
        FILTERS.update(FILTERS.fresh(), trajectory(np.random.default_rng(i).normal(1.0, 1.0, (30, 2))))
        for i in range(2)
    ]
    lie = Filters(Moments(jnp.float32(30), jnp.full(2, 1e6), jnp.full(2, 1e9)), honest[0].reward)
    each = [Theta(jnp.ones(1), jnp.ones(1), filters) for filters in (*honest, lie)]
    found = pooling.combine(jax.tree.map(lambda *x: jnp.stack(x), *each), EVERYONE, median)
    assert np.abs(np.asarray(found.filters.obs.mean) - 1.0).max() < 1.0
