"""PPO's objectives on cases computed by hand, and the adaptation of the KL penalty against a table."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.learners.surrogates import adaptive_kl, clipped


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, 2.0),
        (1.5, 2.0, 2.4),  # a gain is counted up to 1.2 only
        (0.5, 2.0, 1.0),  # a loss of a good action is counted whole
        (0.5, -2.0, -1.6),  # taking away a bad action is counted down to 0.8 only
        (1.5, -2.0, -3.0),  # more of a bad action is counted whole
    ],
)
def test_clipped_ratio(ratio, advantage, expected):
    got = clipped(0.2).objective(*map(jnp.float32, (ratio, advantage, 7.0, 3.0)))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_clipping_keeps_its_coefficient():
    assert float(clipped().adapt(jnp.float32(1.0), jnp.float32(5.0), jnp.float32(1.0))) == 1.0


@pytest.mark.parametrize(
    ("ratio", "advantage", "kl", "beta", "expected"),
    [
        (1.2, 2.0, 0.1, 3.0, 1.2 * 2.0 - 0.3),
        (50.0, 1.0, 0.0, 1.0, 10.0),  # the ratio is cut at 10
        (0.0, 1.0, 0.5, 2.0, 1e-8 - 1.0),
    ],
)
def test_penalised_ratio(ratio, advantage, kl, beta, expected):
    got = adaptive_kl(3e-3).objective(*map(jnp.float32, (ratio, advantage, kl, beta)))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("beta", "kl", "largest", "expected"),
    [  # target 3e-3: below 2.727e-3 halve, above 3.3e-3 double
        (1.0, 2.7e-3, 3.0, 0.5),
        (1.0, 2.8e-3, 3.0, 1.0),
        (1.0, 3.2e-3, 3.0, 1.0),
        (1.0, 3.4e-3, 3.0, 2.0),
        (16.0, 3.4e-3, 3.0, 20.0),  # never above 20
        (8.0, 1.0, 3.0, 3.0),  # nor above |largest advantage / KL|
        (8.0, 1.0, -3.0, 3.0),
        (1.2e-8, 0.0, 3.0, 1e-8),  # never below 1e-8
    ],
)
def test_adaptation_of_the_penalty(beta, kl, largest, expected):
    got = adaptive_kl(3e-3).adapt(*map(jnp.float32, (beta, kl, largest)))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("build", [lambda: clipped(0.0), lambda: adaptive_kl(-1.0)])
def test_nonsense(build):
    with pytest.raises(ValueError, match="must be positive"):
        build()
