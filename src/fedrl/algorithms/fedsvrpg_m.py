"""FedSVRPG-M: Algorithm 1 of Wang et al. 2024."""

from fedrl.aggregation.mean import mean
from fedrl.algorithms.federated import Project
from fedrl.algorithms.momentum_anchor import anchored, check_beta
from fedrl.arguments import checked
from fedrl.channels.plain import plain
from fedrl.federations.federation import Method
from fedrl.learners.optimizers import Schedule
from fedrl.learners.safeguards import Baseline
from fedrl.learners.svrpg import svrpg
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.types import BuildPolicy, Channel, Combine


@checked
def fedsvrpg_m(
    *,
    beta: float,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int = 1,
    server_step: float = 1.0,
    first_batch: int = 0,
    corrected: bool = True,
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
    """Clients follow Eq. (4); with beta = 1 and `server_step` = 1 this is FedAvg. corrected=False: heavy-ball momentum.

    Safeguards that the paper does not have, off by default (`learners.svrpg`): importance weights are at most
    `weight_limit`; directions have at most the norm `clip` (with beta = 1: clipped PAvg); `baseline` is subtracted from the
    reward to go (`learners.leave_one_out`); eta_r / eta is `decay` of the round (`learners.storm`). u_0 is not clipped.
    """
    return anchored(
        svrpg(
            beta=check_beta(beta), horizon=horizon, batch=batch, corrected=corrected,
            weight_limit=weight_limit, clip=clip, baseline=baseline, decay=decay,
        ),
        eta=eta, local_steps=local_steps, horizon=horizon, server_step=server_step, first_batch=first_batch,
        policy=policy, remember=remember, selection=selection, combine=combine, channel=channel, project=project,
        decay=decay,
    )  # fmt: skip
