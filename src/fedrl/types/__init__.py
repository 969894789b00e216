"""The central types. A federated algorithm is a list of exchanges, each a record of pure functions.

`Tree` is any pytree; a *stack* is a tree whose leaves have a leading client axis. Functions in records are typed by
Protocols (`Start`, `Sample`, `Combine`, …), whose docstrings say what each receives and returns.
"""

from fedrl.types.clients import Client, Clients, Cohort, Metrics, Server
from fedrl.types.exchange import (
    TRAIN,
    Algorithm,
    Channel,
    Choose,
    Combine,
    Exchange,
    InitMemory,
    InitSharedState,
    Mix,
    ParametersOf,
    Receive,
    ReportMetrics,
    no_memory,
    no_shared_state,
)
from fedrl.types.learner import BuildLearner, Learner, Model, Pooling, add_displacement, displacements, within
from fedrl.types.local_update import (
    Apply,
    ClientMetrics,
    Estimate,
    Finish,
    LocalUpdate,
    Mode,
    Possible,
    Sample,
    SharedSample,
    Start,
    StepsOf,
)
from fedrl.types.policy import AnyPolicy, BuildPolicy, InitParameters, Policy, stepwise
from fedrl.types.trajectory import Trajectory

__all__ = [
    "TRAIN",
    "Algorithm",
    "AnyPolicy",
    "Apply",
    "BuildLearner",
    "BuildPolicy",
    "Channel",
    "Choose",
    "Client",
    "ClientMetrics",
    "Clients",
    "Cohort",
    "Combine",
    "Estimate",
    "Exchange",
    "Finish",
    "InitMemory",
    "InitParameters",
    "InitSharedState",
    "Learner",
    "LocalUpdate",
    "Metrics",
    "Mix",
    "Mode",
    "Model",
    "ParametersOf",
    "Policy",
    "Pooling",
    "Possible",
    "Receive",
    "ReportMetrics",
    "Sample",
    "Server",
    "SharedSample",
    "Start",
    "StepsOf",
    "Trajectory",
    "add_displacement",
    "displacements",
    "no_memory",
    "no_shared_state",
    "stepwise",
    "within",
]


def __dir__() -> list[str]:
    return __all__
