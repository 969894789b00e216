"""Going alone: every client trains its own policy and nothing is exchanged. The baseline a federation must beat."""

from typing import NamedTuple

from jax import Array

from fedrl.aggregation.mean import stack
from fedrl.algorithms.fedavg import Method
from fedrl.environments.protocol import Environment
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.ascent import BuildDirection, ascend
from fedrl.policies.softmax import softmax_table
from fedrl.selection.participation import Participation, everyone
from fedrl.trees import Tree
from fedrl.types import Algorithm, BuildPolicy, Exchange


class Own(NamedTuple):
    """What a client keeps: its own parameters."""

    theta: Tree


def alone(
    direction: BuildDirection,
    *,
    eta: float,
    local_steps: int,
    policy: BuildPolicy = softmax_table(),
    participation: Participation = everyone(),
) -> Method:
    """The local steps of `fedavg` without its server: parameters stay in the client's memory."""

    def build(federation: Federation) -> Algorithm:
        acting = policy(federation.environment)

        def memory(client_id: Array, key: Key) -> Own:
            return Own(acting.init(key))

        train = Exchange(
            name="train",
            choose=participation(federation),
            send=lambda server, client_id: (),
            local=ascend(
                direction(federation.environment, acting),
                eta=eta,
                local_steps=local_steps,
                theta_of=lambda message, client: client.memory.theta,
                finish=lambda local, client: ((), Own(local.theta)),
                traced=isinstance(federation.environment, Environment),
            ),
            combine=stack,
            receive=lambda server, nothing, cohort, key: (server, {}),
            channel=plain,
        )
        return Algorithm(
            init=lambda key: (),
            exchanges=(train,),
            answer=lambda server: (),
            policy=acting,
            memory=memory,
            theta_of=lambda answer, client: client.memory.theta,
        )

    return build
