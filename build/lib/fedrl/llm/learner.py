"""GRPO as a local learner, so that FedAgent (paper 002, Alg. 1) is federated averaging like any other."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import trees
from fedrl.arguments import at_least, checked
from fedrl.environments.errors import check_parameters
from fedrl.keys import Key
from fedrl.learners.proximal import check
from fedrl.learners.reports import Report, added, means, measured, nothing
from fedrl.llm.episodes import Acting, Episode, noise_of, play
from fedrl.llm.grpo.report import LEARNT, PLAYED, of_episodes
from fedrl.llm.grpo.update import Grpo, improve, reward_of
from fedrl.llm.models.loading import Spec, opened
from fedrl.llm.models.model import Theta, load
from fedrl.llm.optimization import adamw, anchored
from fedrl.llm.tasks import TaskList, TextWorld, listed
from fedrl.trees import Tree
from fedrl.types import BuildLearner, Client, Learner, LocalUpdate, Metrics, Mode, Policy


class Visit(NamedTuple):
    """A client while it trains; the optimiser is new at every visit."""

    theta: Theta
    optimizer: Any
    env_steps: Array
    message: Any
    step: Array  # how many local steps are done
    report: Tree  # what `look` found in the model it leaves with
    steps: Report  # of the local steps so far


Look = Callable[[Theta], np.ndarray]  # success and score of a model


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
    look: Look | None = None,
) -> BuildLearner:
    """`local_steps` times: play `group` episodes of each of `tasks` tasks drawn from the client's own (with replacement),
    and improve the model by them. The paper's "64 tasks an epoch" are these 8 x 8 episodes.

    `mu` is FedProx's: the loss has mu/2 times the squared distance to what the server sent. `look` is given what the client
    has learnt before it goes to the server, and says its success and score, which stand in the visit's `report`.

    Reports, as means over its local steps, what `of_episodes` says of the episodes played and `of_decisions` of what was
    learnt from them (a step that teaches nothing does not count there); with a `look` also own_success and own_score, of
    the model it leaves with.
    """
    if tasks < 1 or group < 2 or local_steps < 1:
        raise ValueError(
            f"grpo wants at least 1 task, 2 episodes of each (alone, nothing is better than its group) and 1 local step, "
            f"got {tasks}, {group} and {local_steps}"
        )

    at_least(0, learning_rate=learning_rate)
    check(mu)

    def build(world: TextWorld) -> Learner:
        if not isinstance(world, TextWorld):
            raise TypeError(
                "grpo trains language agents in a TextWorld, and this federation has none; "
                "write fedrl.llm.tasks.federation(world, partition), or fedavg(ppo()) for this one"
            )
        optimizer = adamw(learning_rate)

        def start(message: Any, client: Client, key: Key) -> Visit:
            none = jnp.zeros((), jnp.int32)
            unseen = jnp.zeros(2) if look else ()
            return Visit(
                message.theta, optimizer.init(message.theta), none, message, none, unseen, nothing(PLAYED + LEARNT)
            )

        def sample(local: Visit, client: Client, key: Key) -> list[Episode]:
            check_parameters(int(client.id), local.theta)
            return episodes(spec, world, local.theta, client.env_params, tasks, group, random_at(key), acting)

        def estimate(local: Visit, seen: list[Episode], client: Client, key: Key) -> tuple[Theta, Visit]:
            """The direction is how far the update moved theta."""
            model = opened(spec)
            groups = [i // group for i in range(len(seen))]
            first = spec.first()
            learnt = improve(
                model, local.theta, local.optimizer, first, seen, groups, settings,
                anchored(optimizer, local.message.theta, mu), random_at(key, "shuffle"), acting.temperature,
            )  # fmt: skip
            steps = local.env_steps + sum(len(episode.turns) for episode in seen)
            moved = trees.subtract(learnt.theta, local.theta)
            report = local.report
            if look and int(local.step) == local_steps - 1:
                report = jnp.asarray(look(learnt.theta), jnp.float32)
            told = of_episodes(seen, [reward_of(episode, settings) for episode in seen]) | learnt.report
            after = local._replace(optimizer=learnt.state, env_steps=steps, step=local.step + 1, report=report)
            return moved, after._replace(steps=added(local.steps, measured(told)))

        def apply(local: Visit, direction: Theta, client: Client) -> Visit:
            return local._replace(theta=trees.add(local.theta, direction))

        def finish(local: Visit, client: Client) -> tuple[Theta, tuple, Array]:
            return trees.subtract(local.theta, local.message.theta), (), local.env_steps

        def metrics(local: Visit, client: Client) -> Metrics:
            own = dict(zip(("own_success", "own_score"), local.report, strict=True)) if look else {}
            return means(local.steps) | own

        update = LocalUpdate(
            start, sample, estimate, apply, finish,
            local_steps=local_steps, mode=Mode.PYTHON, metrics=metrics,
        )  # fmt: skip
        return Learner(language_policy(spec), spec.init, update)

    return build


def episodes(
    spec: Spec,
    world: TextWorld,
    theta: Theta,
    mine: TaskList,
    tasks: int,
    group: int,
    random: np.random.Generator,
    acting: Acting,
) -> list[Episode]:
    model = opened(spec)
    load(model, theta)
    drawn = random.choice(listed(mine), size=tasks, replace=True).tolist()
    return play(model, spec.teller(), world.make, drawn, group, noise_of(random, tasks * group, acting), acting)


def random_at(key: Key, word: str = "") -> np.random.Generator:
    """NumPy's generator for an address of ours."""
    data = np.asarray(jax.random.key_data(key)).ravel().tolist()
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([*data, *word.encode()])))


def language_policy(spec: Spec) -> Policy:
    """A language agent acts by whole episodes (`episodes.play`), not one observation at a time."""

    def refuse(what: str, *_: Any) -> Any:
        raise TypeError(f"a language agent has no {what} of single actions; see fedrl.llm.episodes.play")

    prepare, noise, sample, action, log_probs = (
        partial(refuse, what) for what in ("preparation", "noise", "sampling", "mapping", "log-probability")
    )
    return Policy(spec.init, prepare, noise, sample, action, log_probs, about={"kind": "language-model"})
