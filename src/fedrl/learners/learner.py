"""What a federated method needs to know of a local learner: its parameters, its local update, what a client keeps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import Array

from fedrl import trees
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, LocalUpdate, Policy

Rule = Callable[[Tree, Cohort], Tree]  # (stack of uploads, cohort) -> aggregate


class Model(NamedTuple):
    """What a learner is sent, unless the server's rule says more."""

    theta: Tree
    round: Array  # how many have been played
    selection: Tree = ()  # what a selection tells those who train, or report to it


class Pooling(NamedTuple):
    """How the uploads of a learner's clients become the next theta. `rule` is the algorithm's: mean, median, yours."""

    combine: Callable[[Tree, Cohort, Rule], Tree]  # (stack of uploads, cohort, rule) -> aggregate
    add: Callable[[Tree, Tree, float], Tree]  # (theta, aggregate, server step) -> theta
    displacement: Callable[[Tree], Tree]  # (aggregate, or theta) -> the part of it that moves parameters (or is moved)
    moving: Callable[[Tree, Tree], Tree] = lambda aggregate, displacement: displacement  # -> `aggregate` with another


def add_displacement(theta: Tree, displacement: Tree, step: float) -> Tree:
    """theta + step * displacement; theta itself where nothing was uploaded."""
    if not jax.tree.leaves(displacement):
        return theta
    return trees.add(theta, trees.scale(step, displacement))


displacements = Pooling(lambda uploads, cohort, rule: rule(uploads, cohort), add_displacement, lambda moved: moved)


class Learner(NamedTuple):
    policy: Policy
    init: Callable  # (key) -> theta: what is learnt together and travels
    local: LocalUpdate  # reads `theta` and `round` of its message (`Model`), uploads the displacement of theta
    memory: Callable = lambda client_id, key: ()  # (client_id, key) -> what a client starts with
    acts_with: Callable = lambda theta, client: theta  # (theta, client) -> the policy's parameters
    recent: Callable | None = None  # (theta, client) -> Trajectory it remembers, as the networks see it (filtered);
    #                                 for methods that look before choosing. The broadcast is then in `local.message`
    log_pi: Callable | None = None  # (theta, obs as the networks see it, choice) -> log pi(choice|obs)
    advantages: Callable | None = None  # (theta, client) -> [B, T] of the choices it remembers, estimated at theta
    loss: Callable | None = None  # (theta, client) -> loss at theta on what it remembers; its gradient is the learner's
    opening: tuple = ()  # local updates played by every client once, before the first round; they move no parameters
    init_shared_state: Callable = (
        lambda env_params, key: ()
    )  # (world, key) -> the world clients meet in, as it is at the start
    pooling: Pooling = displacements


BuildLearner = Callable[[Any], Learner]  # (environment)


def within(local: LocalUpdate, inside: Callable[[Client], Client]) -> LocalUpdate:
    """`local` as part of something that keeps more of a client: it sees the client that `inside` gives."""
    return local._replace(
        start=lambda message, client, key: local.start(message, inside(client), key),
        sample=lambda state, client, *rest: local.sample(state, inside(client), *rest),
        estimate=lambda state, trajectory, client, key: local.estimate(state, trajectory, inside(client), key),
        apply=lambda state, direction, client: local.apply(state, direction, inside(client)),
        finish=lambda state, client: local.finish(state, inside(client)),
        metrics=lambda state, client: local.metrics(state, inside(client)),
    )
