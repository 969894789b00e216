"""Who keeps the time is told while a program compiles, and only then."""

import cloudpickle
import jax
import numpy as np
import pytest
from support.engine_runs import frozen_lakes

from fedrl.policies.softmax import softmax_table
from fedrl.rollouts.compiling import Compiled, CompileListener
from fedrl.rollouts.episodes import sampler
from fedrl.types import Client


@pytest.fixture
def turns(monkeypatch):
    told = []
    monkeypatch.setattr(CompileListener, "notify", told.append)
    return told


def test_the_first_call(turns):
    double = Compiled(lambda x: 2 * x)
    assert double(3) == 6
    assert turns == [True, False]
    assert double(4) == 8
    assert turns == [True, False]


def test_elsewhere_it_compiles_anew(turns):
    double = Compiled(lambda x: 2 * x)
    double(3)
    assert cloudpickle.loads(cloudpickle.dumps(double))(5) == 10
    assert turns == [True, False, True, False]


def test_acting_on_simulators(turns):
    """Its own programs are told of as well: a deadline is for what a client does."""
    environment = frozen_lakes(2).environment
    policy = softmax_table()(environment)
    act = sampler(environment, policy, horizon=4, batch=1)
    client = Client(np.int32(0), np.int32(0), (), ())
    for _ in range(2):
        act(policy.init(jax.random.key(0)), client, jax.random.key(1))
        assert turns == 3 * [True, False]
