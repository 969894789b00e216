"""The server's half of federated averaging, by numbers computed by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl import keys
from fedrl.aggregation.median import median
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.server_rules import ServerState
from fedrl.core.round import update_server
from fedrl.types import Cohort

STEPS = {"eta": 0.1, "local_steps": 1, "horizon": 2}


def after(uploads: list[float], *, weight: tuple[float, ...], present: tuple[bool, ...], **options) -> tuple:
    """theta, from ones, and the metrics, when the clients' displacements are these numbers everywhere."""
    (train,) = pavg(**STEPS, **options)(federation(3)).exchanges
    sent = jnp.broadcast_to(jnp.asarray(uploads)[:, None, None], (3, 4, 3))
    asked = Cohort(jnp.arange(3), jnp.asarray(weight), jnp.asarray(present), jnp.zeros(3, jnp.int32))
    server = ServerState(jnp.ones((4, 3)), jnp.int32(6))
    server, trajectory = update_server(train, server, (sent, ()), asked, keys.of_seed(0))
    assert int(server.round) == 7
    return np.asarray(server.theta), float(trajectory["update_norm"])


ALL, EVEN, UNEVEN = (True,) * 3, (1 / 3,) * 3, (0.5, 0.25, 0.25)


@pytest.mark.parametrize(
    ("server_step", "weight", "present", "theta"),
    [
        (1.0, EVEN, ALL, 3.0),  # 1 + (1 + 2 + 3) / 3
        (0.5, EVEN, ALL, 2.0),
        (2.0, EVEN, ALL, 5.0),
        (1.0, UNEVEN, ALL, 2.75),  # 1 + 0.5 + 0.5 + 0.75
        (0.5, UNEVEN, (False, True, True), 2.25),  # 1 + 0.5 (2 + 3) / 2
        (0.5, EVEN, (False,) * 3, 1.0),
    ],
)
def test_the_server_adds_its_step_times_the_mean(server_step, weight, present, theta):
    found, norm = after([1.0, 2.0, 3.0], weight=weight, present=present, server_step=server_step)
    np.testing.assert_allclose(found, np.full((4, 3), theta), rtol=1e-6)
    np.testing.assert_allclose(norm, 12**0.5 * (theta - 1.0) / server_step, rtol=1e-6)  # of the mean, before the step


def test_what_combines_and_what_confines():
    found, _ = after([1.0, 2.0, 30.0], weight=EVEN, present=ALL, combine=median)
    np.testing.assert_allclose(found, np.full((4, 3), 3.0))
    found, _ = after(
        [1.0, 2.0, 3.0], weight=EVEN, present=ALL, project=lambda environment, policy: lambda theta: 0.5 * theta
    )
    np.testing.assert_allclose(found, np.full((4, 3), 1.5), rtol=1e-6)
