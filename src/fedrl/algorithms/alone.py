"""Going alone: every client trains its own policy and nothing is exchanged. The baseline a federation must beat.

In an environment that clients share this is independent reinforcement learning, IRL (Xu et al. 2024).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.algorithms.federated import federated
from fedrl.algorithms.server_rules import no_server
from fedrl.arguments import checked
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.trees import Tree
from fedrl.types import BuildLearner, Client, Learner, LocalUpdate, Model, within


class Own(NamedTuple):
    """What a client keeps: its own parameters, how often it has trained, and what the learner keeps."""

    theta: Tree
    round: Array
    memory: Tree


@checked
def alone(learner: BuildLearner, *, selection: BuildSelection = everyone()) -> Method:
    """The local steps of `fedavg` without its server: parameters stay in the client's memory.

    Nothing is uploaded, so `selection` is the only part it takes, and it must not need reports.
    """

    def without_reports(federation: Federation, home_learner: Learner) -> Selection:
        chooser = selection(federation, learner(federation.environment))
        if chooser.reports:
            raise ValueError(
                "clients that go alone send nothing, and this selection needs reports from them; "
                "give selection=uniform(6) or selection=uniform_of(18, 6)"
            )
        return chooser

    return federated(no_server, lambda environment: _at_home(learner(environment)), selection=without_reports)


def _at_home(learner: Learner) -> Learner:
    def memory(client_id: Array, key: Key) -> Own:
        return Own(learner.init(key), jnp.zeros((), jnp.int32), learner.memory(client_id, key))

    return Learner(
        learner.policy,
        init=lambda key: (),
        local=_from_own(learner, learner.local, trains=True),
        memory=memory,
        acts_with=lambda nothing, client: learner.acts_with(client.memory.theta, _inner_client(client)),
        opening=tuple(_from_own(learner, local, trains=False) for local in learner.opening),
        init_shared_state=learner.init_shared_state,
    )


def _inner_client(client: Client) -> Client:
    """The client with the memory that its learner expects."""
    return client._replace(memory=client.memory.memory)


def _from_own(learner: Learner, local: LocalUpdate, *, trains: bool) -> LocalUpdate:
    """`local`, started from the client's own parameters; the result is added to them instead of being uploaded."""

    def start(message: Any, client: Client, key: Key) -> Any:
        return local.start(Model(client.memory.theta, client.memory.round), _inner_client(client), key)

    def finish(state: Any, client: Client) -> tuple[Tree, Own, Array]:
        upload, memory, env_steps = local.finish(state, _inner_client(client))
        own = client.memory
        if jax.tree.leaves(memory):
            own = own._replace(memory=memory)
        theta = learner.pooling.add(own.theta, upload, 1.0)
        return (), own._replace(theta=theta, round=own.round + int(trains)), env_steps

    return within(local, _inner_client)._replace(start=start, finish=finish)
