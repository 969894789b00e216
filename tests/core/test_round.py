"""What a round does beside training: clients' reports, averaged by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl.algorithms.fedavg import pavg
from fedrl.core.round import weighted_means
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import exact_return
from fedrl.types import Cohort

COHORT = Cohort(jnp.arange(3), jnp.array([0.5, 0.25, 0.25]), jnp.array([True, True, False]), jnp.zeros(3, jnp.int32))


def mean(*values: float) -> float:
    return float(weighted_means({"kl": jnp.array(values)}, COHORT)["kl"])


def test_reports_are_weighted_and_absent_clients_do_not_count():
    assert mean(1.0, 4.0, 100.0) == pytest.approx((0.5 * 1.0 + 0.25 * 4.0) / 0.75)


def test_a_number_that_is_not_finite_counts_as_not_reported():
    assert mean(jnp.nan, 4.0, 100.0) == 4.0
    assert mean(1.0, jnp.inf, 100.0) == 1.0
    assert np.isnan(mean(jnp.nan, jnp.nan, 1.0))


@pytest.mark.parametrize("engine", [fused("map"), one_at_a_time()], ids=["fused", "one_at_a_time"])
def test_what_clients_report_is_in_the_metrics_of_the_exchange(engine):
    where = federation(3, weight=np.array([1.0, 2.0, 1.0], np.float32))
    algorithm = pavg(eta=0.1, local_steps=1, horizon=2)(where)
    (train,) = algorithm.exchanges
    reporting = train.local._replace(metrics=lambda local, client: {"ten_times_id": 10.0 * client.id.astype("float32")})
    algorithm = algorithm._replace(exchanges=(train._replace(local=reporting),))
    play = engine(algorithm, where, exact_return()(algorithm, where))
    _, metrics = play.advance(play.init([0])[0], 0, 1)
    assert float(metrics["train/ten_times_id"][0, 0]) == pytest.approx(0.5 * 10 + 0.25 * 20)
