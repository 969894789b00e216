"""GRPO as a local learner, so that FedAgent (fedagent, Alg. 1) is federated averaging like any other."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import trees
from fedrl.arguments import at_least, checked
from fedrl.environments.errors import check_parameters
from fedrl.keys import Key
from fedrl.learners.proximal import check
from fedrl.learners.reports import Report, added, means, measured, nothing
from fedrl.llm.episodes import Acting, Episode
from fedrl.llm.grpo_update.report import DECISION_METRICS, EPISODE_METRICS, episode_metrics
from fedrl.llm.grpo_update.update import Grpo, improve, reward_of
from fedrl.llm.models.loading import Spec, open_model
from fedrl.llm.models.model import Theta
from fedrl.llm.optimization import adamw, proximal
from fedrl.llm.policy import language_policy
from fedrl.llm.randomness import generator_of
from fedrl.llm.tasks import TextEnvironment, task_numbers
from fedrl.trees import Tree
from fedrl.types import BuildLearner, Client, Learner, LocalUpdate, Metrics, Mode


class LocalState(NamedTuple):
    """A client while it trains; its optimizer is new in every round."""

    theta: Theta
    optimizer: Any
    env_steps: Array
    message: Any
    step: Array  # local steps taken
    own: Tree  # success and score of its own model, if `evaluate_own` is given
    steps: Report  # of the local steps so far


EvaluateTheta = Callable[[Theta], np.ndarray]  # success and score of a model


@checked
def grpo(
    spec: Spec,
    settings: Grpo = Grpo(),
    acting: Acting = Acting(),
    *,
    tasks: int = 8,
    group: int = 8,
    learning_rate: float = 1e-6,
    local_steps: int = 3,
    mu: float = 0.0,
    evaluate_own: EvaluateTheta | None = None,
) -> BuildLearner:
    """`local_steps` times: play `group` episodes of each of `tasks` tasks drawn from the client's own (with replacement),
    and improve the model with them. The paper's "64 tasks per epoch" are these 8 x 8 episodes.

    `mu` is FedProx's: mu/2 times the squared distance to the server's parameters is added to the loss. `evaluate_own`
    measures the client's own model after its last local step.

    Reports means over local steps of `episode_metrics` and `decision_metrics` (a step without any advantage does not
    count in the latter); with `evaluate_own` also own_success and own_score.
    """
    if tasks < 1 or group < 2 or local_steps < 1:
        raise ValueError(
            f"grpo needs at least 1 task, 2 episodes of each (a single one has no group to be compared with) and 1 local "
            f"step, got {tasks}, {group} and {local_steps}"
        )

    at_least(0, learning_rate=learning_rate)
    check(mu)

    def build(environment: TextEnvironment) -> Learner:
        if not isinstance(environment, TextEnvironment):
            raise TypeError(
                f"grpo trains language agents in a TextEnvironment, got a federation of {type(environment).__name__}; "
                "write fedrl.llm.tasks.federation(environment, partition), or fedavg(ppo()) for this one"
            )
        optimizer, policy = adamw(learning_rate), language_policy(spec)

        def start(message: Any, client: Client, key: Key) -> LocalState:
            zero = jnp.zeros((), jnp.int32)
            own = jnp.zeros(2) if evaluate_own else ()
            report = nothing(EPISODE_METRICS + DECISION_METRICS)
            return LocalState(message.theta, optimizer.init(message.theta), zero, message, zero, own, report)

        def sample(local: LocalState, client: Client, key: Key) -> list[Episode]:
            check_parameters(int(client.id), local.theta)
            rng = generator_of(key)
            drawn_tasks = rng.choice(task_numbers(client.env_params), size=tasks, replace=True).tolist()
            return policy.play(local.theta, environment, drawn_tasks, group, rng, acting)

        def estimate(local: LocalState, episodes: list[Episode], client: Client, key: Key) -> tuple[Theta, LocalState]:
            """The direction is how far the update moved theta."""
            groups = [i // group for i in range(len(episodes))]
            result = improve(
                open_model(spec), local.theta, local.optimizer, spec.first(), episodes, groups, settings,
                proximal(optimizer, local.message.theta, mu), generator_of(key, "shuffle"), acting.temperature,
            )  # fmt: skip
            env_steps = local.env_steps + sum(len(episode.turns) for episode in episodes)
            own = local.own
            if evaluate_own and int(local.step) == local_steps - 1:
                own = jnp.asarray(evaluate_own(result.theta), jnp.float32)
            rewards = [reward_of(episode, settings) for episode in episodes]
            steps = added(local.steps, measured(episode_metrics(episodes, rewards) | result.report))
            direction = trees.subtract(result.theta, local.theta)
            return direction, local._replace(
                optimizer=result.state, env_steps=env_steps, step=local.step + 1, own=own, steps=steps
            )

        def apply(local: LocalState, direction: Theta, client: Client) -> LocalState:
            return local._replace(theta=trees.add(local.theta, direction))

        def finish(local: LocalState, client: Client) -> tuple[Theta, Tree, Array]:
            return trees.subtract(local.theta, local.message.theta), (), local.env_steps

        def metrics(local: LocalState, client: Client) -> Metrics:
            own = dict(zip(("own_success", "own_score"), local.own, strict=True)) if evaluate_own else {}
            return means(local.steps) | own

        update = LocalUpdate(
            start, sample, estimate, apply, finish, local_steps=local_steps, mode=Mode.PYTHON, metrics=metrics
        )
        return Learner(policy, spec.init, update)

    return build
