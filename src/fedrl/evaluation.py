"""Evaluation is an exchange like any other; it leaves the server unchanged."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.aggregation.mean import stack
from fedrl.arguments import at_least, checked
from fedrl.channels.plain import plain
from fedrl.environments import protocol
from fedrl.environments.protocol import Environment, Host
from fedrl.environments.tabular import finite, solvers
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.policies.deterministic import deterministic as without_noise
from fedrl.rollouts.episodes import MOST_STEPS
from fedrl.rollouts.sampling import make_sampler
from fedrl.rollouts.shared import SharedState
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection, drawing
from fedrl.trees import Tree
from fedrl.types import (
    Algorithm,
    Choose,
    Client,
    Cohort,
    Exchange,
    Learner,
    LocalUpdate,
    Metrics,
    Mode,
    Policy,
    Possible,
    Receive,
    Server,
    SharedSample,
    Start,
    Trajectory,
    stepwise,
)

__all__ = ["Evaluation", "default_evaluation", "evaluation_exchange", "exact_return", "sampled_return"]

Evaluation = Callable[[Algorithm, Federation], Exchange]


@checked
def exact_return(
    clients: BuildSelection = everyone(), *, start: Array | None = None, deterministic: bool = False
) -> Evaluation:
    """J_c(pi) of each client by a linear solve, not regularised, discounted: `labbi2025` Eq. 1, `wang2024` Eq. 3.

    `start` replaces the start distribution; `deterministic` evaluates the policy that always takes its most likely action.
    For a large population, `clients` selects those to evaluate.
    """

    rho = None if start is None else _distribution(start)

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        check_mdps("exact_return", federation)
        finite.warn_near_one("exact_return", federation.environment.gamma)
        _check_start(federation, rho)
        gamma = federation.environment.gamma
        policy = _acting(algorithm, deterministic)

        def table(theta: Tree, env_params: finite.MDP) -> Array:
            if not deterministic:
                return solvers.probabilities(policy, theta, states=env_params.start.shape[-1])
            choice = policy.sample(theta, jnp.arange(env_params.start.shape[0]), None)
            return solvers.deterministic(policy.action(choice), policy.actions, env_params.reward.dtype)

        def value(answer: Tree, client: Client, key: Key) -> Array:
            pi = table(algorithm.theta_of(answer, client), client.env_params)
            return jnp.dot(client.env_params.start if rho is None else rho, solvers.value(client.env_params, pi, gamma))

        local = measuring(value, possible=lambda value, client: _possible(value, client, gamma))
        return evaluation_exchange(algorithm, local, choosing(clients, algorithm, federation, local))

    return build


def measuring(measure: Start, possible: Possible | None = None) -> LocalUpdate:
    """A client that takes no steps and answers with what it measures."""
    return LocalUpdate(
        start=measure,
        sample=lambda local, client, key: (),
        estimate=lambda local, trajectory, client, key: ((), local),
        apply=lambda local, direction, client: local,
        finish=lambda local, client: (local, (), jnp.zeros((), jnp.int32)),
        local_steps=0,
        possible=possible,
    )


def _distribution(start: Any) -> Any:
    """As an array, or a `ValueError`."""
    rho = finite.as_numbers("start", start)
    known = np.asarray(rho)
    if known.ndim != 1 or not (abs(known.sum() - 1.0) < 1e-4 and (known >= 0).all()):
        raise ValueError(
            f"start expects one probability per state, summing to 1, got {known.tolist()!s:.60}; divide it by its sum"
        )
    return rho


def check_mdps(evaluation: str, federation: Federation) -> None:
    """Refuse a federation whose clients are not finite MDPs, which `evaluation` solves."""
    env_params = jax.eval_shape(federation.example)
    if not isinstance(env_params, finite.MDP):
        raise ValueError(
            f"{evaluation} solves finite MDPs, but this federation's parameters are {type(env_params).__name__}; "
            "use evaluation=sampled_return()"
        )


def _check_start(federation: Federation, rho: Any) -> None:
    env_params = jax.eval_shape(federation.example)
    if rho is not None and rho.shape != env_params.start.shape:
        raise ValueError(
            f"start has {len(rho)} states, the MDPs {env_params.start.shape[0]}; give one probability per state"
        )


def _possible(value: Array, client: Client, gamma: float) -> Array:
    """Whether |J| <= max |r| / (1 - gamma), with a margin for the error of the linear solve."""
    return jnp.abs(value) <= 1.01 * jnp.max(jnp.abs(client.env_params.reward)) / (1.0 - gamma) + 1e-6


class _Local(NamedTuple):
    answer: Tree
    mean_return: Array


def _acting(algorithm: Algorithm, deterministic: bool) -> Policy:
    policy = stepwise(algorithm.policy)
    return without_noise(policy) if deterministic else policy


@checked
def sampled_return(
    episodes: int = 10,
    clients: BuildSelection = everyone(),
    *,
    horizon: int | None = None,
    per_step: bool = False,
    deterministic: bool = False,
) -> Evaluation:
    """Mean undiscounted return of `episodes` episodes per client, acting as in training (`wang2024`, `xie2025`) or, with
    `deterministic`, by the most likely action: an argmax, the mean of a Gaussian.

    `horizon` truncates episodes; by default they run to the environment's own limit. `per_step` divides by it: if the reward
    is a normalised speed, this is the mean speed of the epoch, with zero after a crash (`xu2024`). Random draws are the
    same in every round. Clients of a shared environment all act in it, each with its own parameters.
    """
    at_least(1, episodes=episodes)
    if horizon is not None:
        at_least(1, "leave it out for the environment's own limit", horizon=horizon)

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        environment = protocol.stepwise(federation.environment)
        most = horizon or environment.max_episode_steps or (MOST_STEPS if isinstance(environment, Host) else 0)
        if not most:
            raise ValueError("this environment has no time limit; give one: sampled_return(horizon=1000)")
        sampling = make_sampler(
            environment,
            _acting(algorithm, deterministic),
            lambda local, client: algorithm.theta_of(local.answer, client),
            horizon=most,
            batch=episodes,
            new_episodes=True,
        )

        def sample_new_episodes(
            local: _Local, clients: Client, shared_state: SharedState, key: Key
        ) -> tuple[Trajectory, SharedState]:
            """New epochs: the shared environment in which clients train stays unchanged."""
            first = jax.tree.map(lambda x: x[0], clients.env_params)
            act = cast(SharedSample, sampling.sample)
            return act(local, clients, sampling.init_shared_state(first, key), key)[0], shared_state

        def estimate(local: _Local, trajectory: Trajectory, client: Client, key: Key) -> tuple[Array, _Local]:
            reward = trajectory.reward
            if sampling.shared_env:  # the simulation continued after its first epoch
                over = (trajectory.terminated | trajectory.truncated).astype(jnp.int32)
                reward = jnp.where(jnp.cumsum(over, axis=1) - over == 0, reward, jnp.zeros_like(reward))
            earned = jnp.mean(jnp.sum(reward, axis=1))
            return earned / most if per_step else earned, local

        local = LocalUpdate(
            start=lambda answer, client, key: _Local(answer, jnp.zeros(())),
            sample=sample_new_episodes if sampling.shared_env else sampling.sample,
            estimate=estimate,
            apply=lambda local, mean_return, client: local._replace(mean_return=mean_return),
            finish=lambda local, client: (local.mean_return, (), jnp.zeros((), jnp.int32)),
            mode=Mode.of(compiled=isinstance(environment, Environment), shared_env=sampling.shared_env),
        )
        return evaluation_exchange(algorithm, local, choosing(clients, algorithm, federation, local))

    return build


def choosing(clients: BuildSelection, algorithm: Algorithm, federation: Federation, local: LocalUpdate) -> Choose:
    return drawing(clients, federation, Learner(algorithm.policy, algorithm.init, local))


def default_evaluation(federation: Federation) -> Evaluation:
    """The exact return if environments are finite MDPs, else a sampled one."""
    env_params = jax.eval_shape(federation.example)
    return exact_return() if isinstance(env_params, finite.MDP) else sampled_return()


def _receive(server: Server, returns: Array, cohort: Cohort, key: Key) -> tuple[Server, Metrics]:
    return server, {"return": jnp.sum(cohort.weight * returns), "returns": returns}


def evaluation_exchange(
    algorithm: Algorithm, local: LocalUpdate, choose: Choose, receive: Receive = _receive
) -> Exchange:
    """The exchange in which clients evaluate the server's answer; `receive` must leave the server unchanged.

    Returns change no parameters, so a limit on the norm of uploads does not apply to them.
    """
    return Exchange(
        name="measure",
        choose=choose,
        send=lambda server, client_id: algorithm.answer(server),
        local=local._replace(moved=lambda returned: ()),
        combine=stack,
        receive=receive,
        channel=plain,
    )


def __dir__() -> list[str]:
    return __all__
