"""Tables of mistakes: what anybody would write at first, and words of the sentence that must answer it."""

import re
import time
from collections.abc import Callable

import jax
import numpy as np
import pytest
from support.federations import environment, federation, random_mdps

import fedrl
from fedrl.algorithms.fedavg import pavg
from fedrl.environments.tabular.finite import MDP

Mistakes = dict[str, tuple[Callable[[], object], str]]

STEPS = {"eta": 0.1, "local_steps": 2, "horizon": 8}
MDPS = random_mdps(3)
FED = federation(3)
WHERE = environment()
ONE = MDP(*(np.asarray(x)[0] for x in MDPS))


def method():
    return pavg(**STEPS)


def trained(method, federation=FED, **settings):
    return fedrl.train(method, federation, **{"rounds": 1} | settings)


def answered(mistake, monkeypatch) -> None:
    """Whether a mistake is answered by a sentence with those words, at once and before anything compiles."""

    def compiles(*args, **kwargs):
        raise AssertionError("this compiles")

    call, words = mistake
    monkeypatch.setattr(jax, "jit", compiles)
    began = time.monotonic()
    with pytest.raises((TypeError, ValueError)) as told:
        call()
    assert re.search(words, str(told.value)), str(told.value)
    assert time.monotonic() - began < 5.0
