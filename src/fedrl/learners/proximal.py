"""FedProx (Li et al. 2020): every step also pulls a client back to the parameters it was sent."""

import math
from typing import Any

from fedrl import trees
from fedrl.arguments import checked
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, Direction
from fedrl.trees import Tree
from fedrl.types import Client, Policy


@checked
def proximal(direction: BuildDirection, *, mu: float) -> BuildDirection:
    """`direction`, of the client's objective less mu/2 |theta - theta_t|^2 (Eq. 2 there). mu = 0 is `direction` itself.

    Reports the metrics of `direction`. For use with `gradient_learner`; language agents use `grpo(mu=…)`.
    """
    check(mu)
    if mu == 0:
        return direction

    def build(environment: Any, policy: Policy) -> Direction:
        base = direction(environment, policy)

        def learn(theta: Tree, message: Tree, trajectory: Tree, client: Client, key: Key) -> tuple[Any, ...]:
            tree, *rest = base.learn(theta, message, trajectory, client, key)
            return trees.add(tree, pull(theta, message.theta, mu)), *rest

        return base._replace(learn=learn)

    return build


def pull(theta: Tree, anchor: Tree, mu: float) -> Tree:
    """- mu (theta - anchor): minus the gradient of the penalty."""
    return trees.scale(mu, trees.subtract(anchor, theta))


def check(mu: float) -> None:
    if not 0 <= mu < math.inf:
        raise ValueError(
            f"mu weighs how far a client may go, is finite and cannot be negative, got {mu}; 0 is federated averaging"
        )
