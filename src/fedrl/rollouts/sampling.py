"""The sampler of a learner: each client in an environment of its own, or all clients in a shared one."""

from typing import Any, NamedTuple

import jax

from fedrl.environments.protocol import Environment, Host
from fedrl.keys import Key
from fedrl.rollouts.episodes import sampler
from fedrl.rollouts.shared import SharedState, shared_rollout
from fedrl.rollouts.shared_host import shared_host_rollout
from fedrl.types import Client, InitSharedState, ParametersOf, Policy, Sample, SharedSample, Trajectory, no_shared_state


class Sampling(NamedTuple):
    """The fields that a `LocalUpdate` and a `Learner` need in order to act."""

    sample: Sample | SharedSample  # `shared_env` says which
    shared_env: bool = False
    init_shared_state: InitSharedState = no_shared_state


def make_sampler(
    environment: Environment | Host,
    policy: Policy,
    parameters: ParametersOf,
    *,
    horizon: int,
    batch: int,
    restart: bool = False,
    new_episodes: bool = False,
) -> Sampling:
    """`parameters(local, client)` returns the policy's parameters; the other arguments are those of `sampler`.

    A shared environment always continues from one roll-out to the next. Pass new_episodes=True if every roll-out starts
    from a new shared state; simulators outside the compiled program then do not keep their state between roll-outs.
    """
    if not environment.agents:
        act = sampler(environment, policy, horizon=horizon, batch=batch, restart=restart)
        return Sampling(lambda local, client, key: act(parameters(local, client), client, key))
    if isinstance(environment, Host):
        shared = shared_host_rollout(environment, policy, horizon=horizon, batch=batch, continues=not new_episodes)
    else:
        shared = shared_rollout(environment, policy, horizon=horizon, batch=batch)

    def sample(local: Any, clients: Client, shared_state: SharedState, key: Key) -> tuple[Trajectory, SharedState]:
        return shared.sample(jax.vmap(parameters)(local, clients), clients, shared_state, key)

    return Sampling(sample, True, shared.init)
