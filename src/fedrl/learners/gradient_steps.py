"""Local ascent: turns a direction into the learner that all averaging methods share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.arguments import at_least, checked
from fedrl.environments.protocol import Environment, Host
from fedrl.keys import Key
from fedrl.learners.reports import Report, added, means, nothing
from fedrl.learners.trajectory_memory import remembering
from fedrl.policies.softmax import softmax_table
from fedrl.trees import Tree
from fedrl.types import (
    BuildLearner,
    BuildPolicy,
    Client,
    InitSharedState,
    Learner,
    LocalUpdate,
    Mode,
    Policy,
    StepsOf,
    no_shared_state,
)


class Direction(NamedTuple):
    """How a step is found: act, then learn from the trajectory. Only `sample` touches the client's environment."""

    # (theta, message, client, key) -> trajectory; with `shared_env` of all clients at once, as a `SharedSample`:
    # (theta, message, clients, shared_state, key) -> trajectories, shared_state
    sample: Callable[..., Any]
    # (theta, message, trajectory, client, key) -> tree like theta, environment steps taken[, `Report`]
    learn: Callable[[Tree, Any, Any, Client, Key], tuple[Any, ...]]
    shared_env: bool = False
    init_shared_state: InitSharedState = no_shared_state
    most_env_steps: int = 0  # that one step can take, 0 if unknown
    reports: tuple[str, ...] = ()  # the names in the `Report` of `learn` (`reports.py`); () if it returns none
    episodes: tuple[int, int] | None = (
        None  # [B, T] of the `Trajectory` that `sample` returns; None if it is another type
    )


BuildDirection = Callable[[Any, Policy], Direction]  # (environment, policy)


class Ascent(NamedTuple):
    """A client in the middle of its local steps."""

    theta: Tree
    message: Tree
    env_steps: Array
    report: Report  # of the steps so far


def gradient_update(
    direction: Direction,
    *,
    eta: float,
    local_steps: int,
    theta_of: Callable[[Tree, Client], Tree] = lambda message, client: message.theta,
    finish: Callable[[Ascent, Client], tuple[Tree, Tree]] | None = None,
    steps_of: StepsOf | None = None,
    compiled: bool = True,
) -> LocalUpdate:
    """theta <- theta + eta * direction, `local_steps` times; uploads the displacement theta_K - theta (labbi2025, Eq. 4).

    Reports the means over the local steps of the direction's metrics.
    """
    check_steps(eta, local_steps)

    def start(message: Tree, client: Client, key: Key) -> Ascent:
        return Ascent(theta_of(message, client), message, jnp.zeros((), jnp.int32), nothing(direction.reports))

    def sample(local: Ascent, client: Client, *rest: Tree) -> Tree:
        return direction.sample(local.theta, local.message, client, *rest)

    def estimate(local: Ascent, trajectory: Tree, client: Client, key: Key) -> tuple[Tree, Ascent]:
        tree, steps, *step = direction.learn(local.theta, local.message, trajectory, client, key)
        report = added(local.report, step[0]) if direction.reports else local.report
        return tree, local._replace(env_steps=local.env_steps + steps, report=report)

    def apply(local: Ascent, tree: Tree, client: Client) -> Ascent:
        return local._replace(theta=trees.add(local.theta, trees.scale(eta, tree)))

    def finish_client(local: Ascent, client: Client) -> tuple[Tree, Tree, Array]:
        if finish is None:
            return trees.subtract(local.theta, theta_of(local.message, client)), (), local.env_steps
        return *finish(local, client), local.env_steps

    return LocalUpdate(
        start,
        sample,
        estimate,
        apply,
        finish_client,
        local_steps=local_steps,
        steps_of=steps_of,
        mode=Mode.of(compiled=compiled, shared_env=direction.shared_env),
        most_env_steps=direction.most_env_steps,
        metrics=lambda local, client: means(local.report),
    )


@checked
def gradient_learner(
    direction: BuildDirection,
    *,
    eta: float,
    local_steps: int,
    policy: BuildPolicy = softmax_table(),
    steps_of: StepsOf | None = None,
    remember: int = 0,
) -> BuildLearner:
    """The learner that takes `local_steps` steps of size `eta` along `direction`.

    With `remember` > 0, a client keeps the episodes of its last `remember` local steps, for selections that evaluate clients
    before choosing them (`trajectory_memory`).
    """
    check_steps(eta, local_steps)
    at_least(0, "1 remembers the last local step", remember=remember)

    def build(environment: Environment | Host) -> Learner:
        acting = policy(environment)
        step_direction = direction(environment, acting)
        local = gradient_update(
            step_direction,
            eta=eta,
            local_steps=local_steps,
            steps_of=steps_of,
            compiled=isinstance(environment, Environment),
        )
        learner = Learner(acting, acting.init, local, init_shared_state=step_direction.init_shared_state)
        if not remember:
            return learner
        if step_direction.episodes is None:
            raise ValueError(
                f"remember={remember} stores episodes, and this direction samples none; "
                "leave remember out, or use a direction that does, such as reinforce or svrpg"
            )
        batch, horizon = step_direction.episodes
        return remembering(learner, environment, acting, horizon=horizon, batch=batch, remember=remember)

    return build


def check_steps(eta: float, local_steps: int) -> None:
    """`eta` = 0 stands still; a negative one would descend."""
    at_least(0, "take a small step such as 0.1", eta=eta)
    at_least(1, local_steps=local_steps)
