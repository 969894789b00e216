"""Federated averaging of any local learner: FedAvg, and with a policy gradient PAvg (Jin et al. 2022)."""

import optax

from fedrl.aggregation.mean import mean
from fedrl.algorithms.federated import Project, federated
from fedrl.algorithms.server_rules import mean_displacement, server_optimiser
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.federations.federation import Method
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.types import BuildLearner, BuildPolicy, Channel, Combine


@checked
def fedavg(
    learner: BuildLearner,
    *,
    server_step: float = 1.0,
    server: optax.GradientTransformation | None = None,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Clients train locally from the common theta; the server adds `server_step` times the mean displacement.

    With an optimiser as `server`, minus the mean displacement is its gradient instead (`server_optimiser`):
    `optax.adam(1e-2)` is FedAdam. The settings from `selection` on are those of `federated`.
    """
    rule = mean_displacement(server_step)
    if server is not None:
        if server_step != 1.0:
            raise ValueError(
                f"server_step={server_step} is the step of an average, and an optimiser at the server has its own; "
                "leave server_step out and give the optimiser its rate: server=optax.adam(1e-2)"
            )
        rule = server_optimiser(server)
    return federated(rule, learner, selection=selection, combine=combine, channel=channel, project=project)


@checked
def pavg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int = 1,
    policy: BuildPolicy = softmax_table(),
    server_step: float = 1.0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """PAvg (Jin et al. 2022): FedAvg of policy gradients, the baseline of both papers."""
    direction = reinforce(horizon=horizon, batch=batch)
    return fedavg(
        gradient_learner(direction, eta=eta, local_steps=local_steps, policy=policy),
        server_step=server_step, selection=selection, combine=combine, channel=channel, project=project,
    )  # fmt: skip
