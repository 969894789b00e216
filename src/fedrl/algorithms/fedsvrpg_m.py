"""FedSVRPG-M: Algorithm 1 of Wang et al. 2024."""

import math

from fedrl import trees
from fedrl.aggregation.mean import mean
from fedrl.algorithms.fedavg import BuildPolicy, Method
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.ascent import ascend
from fedrl.local.reinforce import reinforce
from fedrl.local.svrpg import Anchor, svrpg
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import Participation, everyone
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Exchange, Metrics


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
    policy: BuildPolicy = softmax_table(),
    participation: Participation = everyone(),
) -> Method:
    """Clients follow Eq. (4); the server keeps their mean direction u and moves by lambda u.

    `server_step` is lambda / (eta K): 1 adds the mean displacement, as FedAvg does; beta = 1 then is FedAvg.
    u_0 is the mean gradient of `first_batch` episodes per client at theta_0 (Theorem 6.4: `theorem_batch`), zero if 0.
    corrected=False is heavy-ball momentum instead of Eq. (4).
    """
    if not 0.0 < beta <= 1.0:
        raise ValueError(f"beta must lie in (0, 1], got {beta}; 1 is plain averaging")

    def build(federation: Federation) -> Algorithm:
        environment = federation.environment
        acting = policy(environment)

        def receive(server: Anchor, displacement: Tree, cohort: Cohort, key: Key) -> tuple[Anchor, Metrics]:
            u = trees.scale(1.0 / (eta * local_steps), displacement)
            theta = trees.add(server.theta, trees.scale(server_step, displacement))
            return Anchor(theta, server.theta, u), {"update_norm": trees.squared_norm(displacement) ** 0.5}

        train = Exchange(
            name="train",
            choose=participation(federation),
            send=lambda server, client_id: server,
            local=ascend(
                svrpg(beta=beta, horizon=horizon, batch=batch, corrected=corrected)(environment, acting),
                eta=eta,
                local_steps=local_steps,
            ),
            combine=mean,
            receive=receive,
            channel=plain,
        )

        def init(key: Key) -> Anchor:
            theta = acting.init(key)
            return Anchor(theta, theta, trees.zeros_like(theta))

        # One unit step along the mean of B gradients: the displacement everyone uploads is u_0.
        first = train._replace(
            name="first",
            choose=everyone()(federation),
            local=ascend(
                reinforce(horizon=horizon, batch=max(first_batch, 1))(environment, acting), eta=1.0, local_steps=1
            ),
            receive=lambda server, u, cohort, key: (server._replace(u=u), {}),
        )
        return Algorithm(
            init=init,
            exchanges=(train,),
            answer=lambda server: server.theta,
            policy=acting,
            opening=(first,) if first_batch else (),
        )

    return build


def theorem_batch(*, local_steps: int, rounds: int, beta: float) -> int:
    """B = ceil(K / (R beta^2)), the episodes per client behind u_0 in Theorem 6.4."""
    return math.ceil(local_steps / (rounds * beta**2))
