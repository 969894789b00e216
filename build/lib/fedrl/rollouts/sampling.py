"""How a learner's clients touch the world: each its own, or all of them one."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from fedrl.environments.protocol import Environment, Host
from fedrl.keys import Key
from fedrl.rollouts.episodes import sampler
from fedrl.rollouts.shared import SharedState, meeting
from fedrl.rollouts.shared_host import host_meeting
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory


class Contact(NamedTuple):
    """What a `LocalUpdate` and a `Learner` say of it."""

    sample: Callable
    shared_env: bool = False
    init_shared_state: Callable = lambda env_params, key: ()


def contact(
    environment: Environment | Host,
    policy: Policy,
    parameters: Callable[[Tree, Client], Tree],
    *,
    horizon: int,
    batch: int,
    restart: bool = False,
    afresh: bool = False,
) -> Contact:
    """`parameters(local, client)` are the policy's. Otherwise as in `sampler`; where clients meet, worlds always go on.

    Who always begins `afresh`, with a scene of its own, says so: then simulators need not be kept where they are.
    """
    if not environment.agents:
        act = sampler(environment, policy, horizon=horizon, batch=batch, restart=restart)
        return Contact(lambda local, client, key: act(parameters(local, client), client, key))
    if isinstance(environment, Host):
        meet = host_meeting(environment, policy, horizon=horizon, batch=batch, goes_on=not afresh)
    else:
        meet = meeting(environment, policy, horizon=horizon, batch=batch)

    def sample(local: Tree, clients: Client, shared_state: SharedState, key: Key) -> tuple[Trajectory, SharedState]:
        return meet.act(jax.vmap(parameters)(local, clients), clients, shared_state, key)

    return Contact(sample, True, meet.begin)
