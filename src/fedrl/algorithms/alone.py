"""Going alone: every client trains its own policy and nothing is exchanged. The baseline a federation must beat.

In a world where clients meet this is independent reinforcement learning, IRL (Xu et al. 2024).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.aggregation.mean import stack
from fedrl.algorithms.fedavg import Method, Model
from fedrl.arguments import checked
from fedrl.federation import Federation
from fedrl.keys import Key
from fedrl.links.plain import plain
from fedrl.local.learner import BuildLearner, Learner, within
from fedrl.selection.participation import EVERYONE, Participation
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Exchange, LocalUpdate


class Own(NamedTuple):
    """What a client keeps: its own parameters, how often it has trained, and what the learner keeps."""

    theta: Tree
    round: Array
    memory: Tree


@checked
def alone(learner: BuildLearner, *, participation: Participation = EVERYONE) -> Method:
    """The local steps of `fedavg` without its server: parameters stay in the client's memory."""

    def build(federation: Federation) -> Algorithm:
        learns = learner(federation.environment)

        def memory(client_id: Array, key: Key) -> Own:
            return Own(learns.init(key), jnp.zeros((), jnp.int32), learns.memory(client_id, key))

        train = Exchange(
            name="train",
            choose=participation(federation),
            send=lambda server, client_id: (),
            local=_at_home(learns, learns.local, trains=True),
            combine=stack,
            receive=lambda server, nothing, cohort, key: (server, {}),
            channel=plain,
        )
        at_home = tuple(_at_home(learns, local, trains=False) for local in learns.opening)
        return Algorithm(
            init=lambda key: (),
            exchanges=(train,),
            answer=lambda server: (),
            policy=learns.policy,
            opening=tuple(train._replace(name=f"opening-{i}", local=local) for i, local in enumerate(at_home)),
            memory=memory,
            theta_of=lambda answer, client: learns.acts_with(client.memory.theta, _inside(client)),
            scene=learns.scene,
        )

    return build


def _inside(client: Client) -> Client:
    """The client as its learner knows it."""
    return client._replace(memory=client.memory.memory)


def _at_home(learner: Learner, local: LocalUpdate, *, trains: bool) -> LocalUpdate:
    """`local` from the client's own parameters, to which what it would upload is then added."""

    def start(message: Any, client: Client, key: Key) -> Any:
        return local.start(Model(client.memory.theta, client.memory.round), _inside(client), key)

    def finish(state: Any, client: Client) -> tuple[Tree, Own, Array]:
        upload, kept, env_steps = local.finish(state, _inside(client))
        own = client.memory
        if jax.tree.leaves(kept):
            own = own._replace(memory=kept)
        theta = learner.pooling.add(own.theta, upload, 1.0)
        return (), own._replace(theta=theta, round=own.round + int(trains)), env_steps

    return within(local, _inside)._replace(start=start, finish=finish)
