"""S-FedPG, RS-FedPG and b-RS-FedPG: Algorithm 1 of Labbi et al. 2025."""

from collections.abc import Callable

from fedrl.aggregation.projection import linf_ball
from fedrl.algorithms.fedavg import Method, fedavg, pavg
from fedrl.environments.protocol import Environment
from fedrl.local.ascent import steps_along
from fedrl.local.reinforce import reinforce
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.theory.bit_level import projection_radius
from fedrl.trees import Tree
from fedrl.types import Policy


def s_fedpg(*, eta: float, local_steps: int, horizon: int, batch: int, **options) -> Method:
    """Federated softmax policy gradient, Eq. (6)."""
    return pavg(eta=eta, local_steps=local_steps, horizon=horizon, batch=batch, **options)


def rs_fedpg(*, eta: float, local_steps: int, horizon: int, batch: int, lam: float, **options) -> Method:
    """The same with entropy regularisation, Eq. (9). lam = 0 is S-FedPG."""
    direction = reinforce(horizon=horizon, batch=batch, lam=lam)
    return fedavg(steps_along(direction, eta=eta, local_steps=local_steps), **options)


def b_rs_fedpg(
    *,
    eta: float,
    local_steps: int,
    horizon: int,
    batch: int,
    lam: float,
    radius: float | None = None,
    bit_discount: float | None = None,
    **options,
) -> Method:
    """Bit-level softmax with bit-entropy regularisation, Eq. (10), projected after each round.

    `radius` of the l-infinity ball is R_b(lam) of App. F.2 unless given; the published code projects nowhere, which is
    radius = inf. With two actions and an infinite radius this is RS-FedPG.
    """

    def ball(environment: Environment, policy: Policy) -> Callable[[Tree], Tree]:
        return linf_ball(projection_radius(lam, environment.gamma, policy.decisions) if radius is None else radius)

    direction = reinforce(horizon=horizon, batch=batch, lam=lam, bit_discount=bit_discount)
    learner = steps_along(direction, eta=eta, local_steps=local_steps, policy=bit_softmax())
    return fedavg(learner, project=ball, **options)
