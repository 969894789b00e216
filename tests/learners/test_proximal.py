"""FedProx: by hand, where it cannot matter, and how far clients go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation

from fedrl import train
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.fused import fused
from fedrl.learners.gradient_steps import Direction, gradient_learner
from fedrl.learners.proximal import proximal
from fedrl.learners.reinforce import reinforce
from fedrl.types import Model


def test_by_hand():
    """One coordinate with slope 2, at 3, sent 1: 2 - 0.5 (3 - 1)."""
    ahead = Direction(sample=lambda *_: (), learn=lambda *_: (jnp.array(2.0), jnp.int32(7)))
    along = proximal(lambda environment, policy: ahead, mu=0.5)(None, None)
    tree, steps = along.learn(jnp.array(3.0), Model(jnp.array(1.0), jnp.int32(0)), (), None, None)
    assert float(tree) == 1.0
    assert int(steps) == 7


def theta(mu: float, local_steps: int) -> np.ndarray:
    direction = proximal(reinforce(horizon=8, batch=2), mu=mu)
    method = fedavg(gradient_learner(direction, eta=0.1, local_steps=local_steps))
    (found,) = jax.tree.leaves(train(method, federation(4), rounds=1, seed=3, engine=fused("map")).theta)
    return np.asarray(found)


def test_a_first_step_is_nowhere_to_be_pulled_back_from():
    assert theta(5.0, 1).tobytes() == theta(0.0, 1).tobytes()


def test_the_stronger_the_nearer():
    """The table begins at zero, so its norm is how far it went."""
    far, near, nearest = (np.linalg.norm(theta(mu, 20)) for mu in (0.0, 1.0, 5.0))
    assert nearest < 0.7 * near < 0.6 * far


def test_wrong_weights():
    with pytest.raises(ValueError, match="cannot be negative, got -1"):
        proximal(reinforce(horizon=8, batch=2), mu=-1.0)
