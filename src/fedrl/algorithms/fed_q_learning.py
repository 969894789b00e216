"""Fed-Q-learning / QAvg with a generative model: Jin et al. 2022, as compared against in Labbi et al. 2025, App. H."""

from typing import Literal

from fedrl.aggregation.mean import mean
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.federated import Project
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.federations.federation import Method
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.q_learning import q_learning
from fedrl.policies.greedy import greedy_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.types import BuildPolicy, Channel, Combine


@checked
def fed_q_learning(
    *,
    eta: float,
    local_steps: int,
    samples: int,
    unsampled: Literal["keep", "decay"] = "keep",
    policy: BuildPolicy = greedy_table(),
    server_step: float = 1.0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """FedAvg of Q tables moved along sampled Bellman residuals; acts greedily, so its policy is deterministic.

    `policy` acts by a Q table [S, A]; its `start` is the initial table. The settings from `server_step` on are those of
    `fedavg`.
    """
    direction = q_learning(samples=samples, unsampled=unsampled)
    return fedavg(
        gradient_learner(direction, eta=eta, local_steps=local_steps, policy=policy),
        server_step=server_step, selection=selection, combine=combine, channel=channel, project=project,
    )  # fmt: skip
