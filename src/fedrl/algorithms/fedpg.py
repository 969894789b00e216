"""S-FedPG, RS-FedPG and b-RS-FedPG: Algorithm 1 of Labbi et al. 2025.

theta_0 is the `start` of the policy: `rs_fedpg(policy=softmax_table(start=...), ...)`. The settings from `server_step` on
are those of `fedavg`.
"""

from collections.abc import Callable

from fedrl.aggregation.mean import mean
from fedrl.aggregation.projection import linf_ball
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.federated import Project
from fedrl.arguments import above, checked
from fedrl.channels.plain import plain
from fedrl.environments.protocol import Environment
from fedrl.federations.federation import Method
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax, bits_for
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.theory.bit_level import projection_radius
from fedrl.trees import Tree
from fedrl.types import BuildPolicy, Channel, Combine, Policy


@checked
def s_fedpg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int,
    policy: BuildPolicy = softmax_table(),
    server_step: float = 1.0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Federated softmax policy gradient, Eq. (6)."""
    return rs_fedpg(
        eta=eta, local_steps=local_steps, horizon=horizon, batch=batch, lam=0.0, policy=policy,
        server_step=server_step, selection=selection, combine=combine, channel=channel, project=project,
    )  # fmt: skip


@checked
def rs_fedpg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int,
    lam: float,
    policy: BuildPolicy = softmax_table(),
    server_step: float = 1.0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """The same with entropy regularisation, Eq. (9). lam = 0 is S-FedPG."""
    direction = reinforce(horizon=horizon, batch=batch, lam=lam)
    return fedavg(
        gradient_learner(direction, eta=eta, local_steps=local_steps, policy=policy),
        server_step=server_step, selection=selection, combine=combine, channel=channel, project=project,
    )  # fmt: skip


@checked
def b_rs_fedpg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int,
    lam: float,
    radius: float | None = None,
    bit_discount: float | None = None,
    policy: BuildPolicy = bit_softmax(),
    server_step: float = 1.0,
    selection: BuildSelection = everyone(),
    combine: Combine = mean,
    channel: Channel = plain,
    project: Project | None = None,
) -> Method:
    """Bit-level softmax with bit-entropy regularisation, Eq. (10), projected after each round.

    `radius` of the l-infinity ball is R_b(lam) of App. F.2 unless given; the published code projects nowhere, which is
    radius = inf. With two actions and an infinite radius this is RS-FedPG. `policy` must be bit-level, as `bit_softmax` is;
    `project` is applied after the projection onto the ball.
    """
    if radius is None:
        above(0, "R_b(lam) is infinite without regularisation: give radius=math.inf", lam=lam)
    else:
        linf_ball(radius)

    def ball(environment: Environment, acting: Policy) -> Callable[[Tree], Tree]:
        if not acting.actions or acting.decisions != bits_for(acting.actions):
            raise ValueError(
                f"b_rs_fedpg needs a bit-level policy, one decision for each of the {bits_for(acting.actions)} bits of an "
                f"action; got one with {acting.decisions} for {acting.actions} actions; use bit_softmax(start=…) or rs_fedpg"
            )
        inside = linf_ball(projection_radius(lam, environment.gamma, acting.decisions) if radius is None else radius)
        further = project(environment, acting) if project else None
        return (lambda theta: further(inside(theta))) if further else inside

    direction = reinforce(horizon=horizon, batch=batch, lam=lam, bit_discount=bit_discount)
    return fedavg(
        gradient_learner(direction, eta=eta, local_steps=local_steps, policy=policy),
        server_step=server_step, selection=selection, combine=combine, channel=channel, project=ball,
    )  # fmt: skip
