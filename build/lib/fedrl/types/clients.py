"""Clients, cohorts, and what is known about them."""

from typing import Any, NamedTuple

import jax
from jax import Array

from fedrl import trees
from fedrl.trees import Tree

Server = Any  # whatever an algorithm keeps at the server
Metrics = dict[str, Array]


class Client(NamedTuple):
    """One client. A row of a stack when fused; alone on its machine otherwise."""

    id: Array  # the only name a client has; keys and sorting use it
    env_params: Tree  # parameters of its environment
    profile: Tree  # facts about it: weight q, local steps, delay
    memory: Tree  # what it keeps between rounds; never uploaded


class Cohort(NamedTuple):
    """The clients of one exchange, how much each counts, and who answered."""

    ids: Array  # [c] ascending
    weight: Array  # [c] q', sums to one over those present
    present: Array  # [c] False: dropped out, or padding
    staleness: Array  # [c] rounds since the broadcast it worked from


class Clients(NamedTuple):
    """All clients of one seed."""

    key: Array  # from which environments are drawn
    env_params: Tree  # a stack, or () if all seeds share it or it is drawn on demand
    memory: Tree  # a stack
    faults: dict[str, Array]  # per exchange, [count] int32: consecutive faults
    shared_state: Tree = ()  # the state of the environment that clients share, if they share one

    def keeping(self, cohort: Cohort, memory: Tree) -> "Clients":
        """With the new memories of those present; () leaves all memories unchanged."""
        if not jax.tree.leaves(memory):
            return self
        return self._replace(memory=trees.put(self.memory, cohort.ids, memory, cohort.present))
