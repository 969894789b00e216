"""FedHAPG-M: Algorithm 2 of Wang et al. 2024."""

from fedrl.aggregation.mean import mean
from fedrl.algorithms.federated import Project
from fedrl.algorithms.momentum_anchor import anchored, check_beta
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.federations.federation import Method
from fedrl.learners.hapg import hapg
from fedrl.learners.optimizers import Schedule
from fedrl.learners.safeguards import Baseline
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.types import BuildPolicy, Channel, Combine


@checked
def fedhapg_m(
    *,
    beta: float,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int = 1,
    server_step: float = 1.0,
    first_batch: int = 0,
    weight_limit: float | None = None,
    clip: float | None = None,
    baseline: Baseline | None = None,
    decay: Schedule | None = None,
    policy: BuildPolicy = softmax_table(),
    remember: int = 0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """FedSVRPG-M with Eq. (5) for the change of the gradient.

    At beta = 1 it is not FedAvg, because episodes are sampled under theta(alpha); only the first local step, where
    theta_{-1} = theta_0, is FedAvg's. `weight_limit`, `clip`, `baseline` and `decay` are the safeguards of `fedsvrpg_m`.
    """
    return anchored(
        hapg(
            beta=check_beta(beta), horizon=horizon, batch=batch,
            weight_limit=weight_limit, clip=clip, baseline=baseline, decay=decay,
        ),
        eta=eta, local_steps=local_steps, horizon=horizon, server_step=server_step, first_batch=first_batch,
        policy=policy, remember=remember, selection=selection, combine=combine, channel=channel, project=project,
        decay=decay,
    )  # fmt: skip
