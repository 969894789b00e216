"""Selection by the loss at the current theta: Power-of-Choice (Jee Cho et al. 2022), GradientNorm (Chen et al. 2022)."""

from collections.abc import Callable

import jax
from jax import Array

from fedrl import trees
from fedrl.arguments import checked
from fedrl.federations.federation import Federation
from fedrl.selection.candidates import Report, two_phase
from fedrl.selection.numbering import Names
from fedrl.selection.selection import BuildSelection
from fedrl.trees import Tree
from fedrl.types import Client, Learner


@checked
def power_of_choice(candidates: int, clients: int, *, lowest: bool = False) -> BuildSelection:
    """The candidates with the highest loss on what they remember; `lowest` for the other end, as in 004's published code."""

    def report(federation: Federation, learner: Learner) -> Report:
        loss = _loss(learner)
        return lambda theta, client, secret: loss(theta, client)

    return two_phase(candidates, clients, report, lambda loss, asked: (-loss if lowest else loss, {}))


@checked
def gradient_norm(candidates: int, clients: int) -> BuildSelection:
    """The candidates with the largest norm of that loss's gradient in theta."""

    def report(federation: Federation, learner: Learner) -> Report:
        slope = jax.grad(_loss(learner))

        def norm(theta: Tree, client: Client, secret: Names) -> Array:
            return trees.squared_norm(slope(theta, client)) ** 0.5

        return norm

    return two_phase(candidates, clients, report, lambda norm, asked: (norm, {}))


def _loss(learner: Learner) -> Callable[[Tree, Client], Array]:
    if learner.loss is None:
        raise ValueError(
            "a selection by loss looks at what clients remember, and this learner remembers nothing; "
            "use ppo(remember=5, warm_up=...), or pass remember=1 to fedsvrpg_m, fedhapg_m or gradient_learner"
        )
    return learner.loss
