"""Steps along the exact gradient of a finite MDP: what REINFORCE estimates, without its noise, or without its bias too."""

import jax.numpy as jnp
from jax import Array

from fedrl.arguments import above, at_least, at_most, checked
from fedrl.environments.protocol import Environment, finite_sizes
from fedrl.environments.tabular import finite, solvers
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, Direction
from fedrl.policies.kinds import require_gradient
from fedrl.trees import Tree
from fedrl.types import Client, Policy


@checked
def exact_gradient(
    *, lam: float = 0.0, horizon: int | None = None, bit_discount: float | None = None
) -> BuildDirection:
    """grad J_c, grad J_r,c or grad J_b,c of `labbi2025` (Eq. 1, 7, 65) by a linear solve; takes no environment steps.

    With the `horizon` of `reinforce` it is the mean of that estimator, g_c of Lemma 4.1: what differs from a run of
    `reinforce` is the noise, sigma. Without, the truncation bias beta is gone too; what is left is the drift of local steps,
    which `local_steps=1` removes. `lam` and `bit_discount` are those of `reinforce`.
    """
    at_least(0, "0 does not regularise", lam=lam)
    if horizon is not None:
        at_least(1, "None does not truncate", horizon=horizon)
    if bit_discount is not None:
        above(0, "None takes the paper's", bit_discount=bit_discount)
        at_most(1, "None takes the paper's", bit_discount=bit_discount)

    def build(environment: Environment, policy: Policy) -> Direction:
        finite_sizes(environment)
        finite.warn_near_one("exact_gradient", environment.gamma)
        require_gradient("exact_gradient", policy)
        if policy.table is None:
            raise ValueError(
                "exact_gradient needs a policy with a table, got one without; use softmax_table() or bit_softmax()"
            )

        def sample(theta: Tree, message: Tree, client: Client, key: Key) -> Tree:
            if not isinstance(client.env_params, finite.MDP):
                raise ValueError(
                    f"exact_gradient solves finite MDPs, but this federation's parameters are "
                    f"{type(client.env_params).__name__}; use reinforce"
                )
            return solvers.gradient(policy, theta, client.env_params, environment.gamma, lam, bit_discount, horizon)

        def learn(theta: Tree, message: Tree, gradient: Tree, client: Client, key: Key) -> tuple[Tree, Array]:
            return gradient, jnp.zeros((), jnp.int32)

        return Direction(sample, learn)

    return build
