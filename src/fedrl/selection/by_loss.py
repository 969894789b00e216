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
    """The candidates with the highest loss on their memory; with `lowest` the lowest, as in the code of `xie2025`."""

    def report(federation: Federation, learner: Learner) -> Report:
        loss = _loss(learner)
        return lambda theta, client, secret: loss(theta, client)

    return two_phase(candidates, clients, report, lambda loss, cohort: (-loss if lowest else loss, {}))


@checked
def gradient_norm(candidates: int, clients: int) -> BuildSelection:
    """The candidates whose loss has the largest gradient norm in theta."""

    def report(federation: Federation, learner: Learner) -> Report:
        slope = jax.grad(_loss(learner))

        def norm(theta: Tree, client: Client, secret: Names) -> Array:
            return trees.squared_norm(slope(theta, client)) ** 0.5

        return norm

    return two_phase(candidates, clients, report, lambda norm, cohort: (norm, {}))


def _loss(learner: Learner) -> Callable[[Tree, Client], Array]:
    if learner.loss is None:
        raise ValueError(
            "a selection by loss needs what clients remember, and this learner remembers nothing; "
            "use ppo(remember=5, warm_up=...), or pass remember=1 to fedsvrpg_m, fedhapg_m or gradient_learner"
        )
    return learner.loss
