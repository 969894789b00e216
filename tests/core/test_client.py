"""A client's local steps by hand: how many are taken, and with which draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl import keys
from fedrl.core.client import all_steps
from fedrl.types import Client, LocalUpdate

CLIENT = Client(jnp.int32(2), (), (), ())


def counting(**options) -> LocalUpdate:
    """Each step multiplies the message by ten and adds what was seen: a digit."""
    return LocalUpdate(
        start=lambda message, client, key: message,
        sample=lambda local, client, key: jnp.float32(3.0),
        estimate=lambda local, trajectory, client, key: (trajectory, 10.0 * local),
        apply=lambda local, direction, client: local + direction,
        finish=lambda local, client: (local, (), jnp.int32(0)),
        local_steps=4,
        **options,
    )


@pytest.mark.parametrize(("steps", "wanted"), [(0, 1.0), (1, 13.0), (2, 133.0), (3, 1333.0), (4, 13333.0)])
def test_a_client_takes_exactly_its_own_number_of_steps(steps, wanted):
    update = counting(steps_of=lambda client, key: jnp.int32(steps))
    assert float(all_steps(update, jnp.float32(1.0), CLIENT, keys.of_seed(0))) == wanted


def test_without_a_number_of_its_own_it_takes_all():
    assert float(all_steps(counting(), jnp.float32(1.0), CLIENT, keys.of_seed(0))) == 13333.0


def test_every_step_draws_at_its_own_address():
    """The sum over steps y of the draw at key / "step" / y, and nothing else."""
    update = counting()._replace(
        sample=lambda local, client, key: jax.random.uniform(key),
        estimate=lambda local, trajectory, client, key: (trajectory, local),
    )
    key = keys.of_seed(5)
    found = all_steps(update, jnp.float32(0.0), CLIENT, key)
    np.testing.assert_allclose(
        found, sum(float(jax.random.uniform(keys.of(key, "step", y))) for y in range(4)), rtol=1e-6
    )
