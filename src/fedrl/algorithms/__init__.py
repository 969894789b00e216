"""Federated methods, under their papers' names. Each takes any selection, combine rule, channel and projection.

`federated` combines a `ServerRule` of your own with any learner.
"""

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fapi import fapi_with_federated_evaluation, fapi_without_federated_evaluation
from fedrl.algorithms.fapi_networks import deep_fapi_with_federated_evaluation, deep_fapi_without_federated_evaluation
from fedrl.algorithms.fapi_steps import bellman_sweeps, greedy_step
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.federated import federated
from fedrl.algorithms.fedhapg_m import fedhapg_m
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.fmarl import fmarl
from fedrl.algorithms.momentum_anchor import theorem_batch
from fedrl.algorithms.server_rules import (
    Phase,
    ServerRule,
    ServerState,
    mean_displacement,
    server_optimiser,
)
from fedrl.federations.federation import Method

__all__ = [
    "Method",
    "Phase",
    "ServerRule",
    "ServerState",
    "alone",
    "b_rs_fedpg",
    "bellman_sweeps",
    "deep_fapi_with_federated_evaluation",
    "deep_fapi_without_federated_evaluation",
    "fapi_with_federated_evaluation",
    "fapi_without_federated_evaluation",
    "fed_q_learning",
    "fedavg",
    "federated",
    "fedhapg_m",
    "fedsvrpg_m",
    "fmarl",
    "greedy_step",
    "mean_displacement",
    "pavg",
    "rs_fedpg",
    "s_fedpg",
    "server_optimiser",
    "theorem_batch",
]


def __dir__() -> list[str]:
    return __all__
