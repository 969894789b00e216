"""Tsallis actor-critic as a local learner: a policy gradient with a bonus for Tsallis entropy."""

from typing import Any

import jax.numpy as jnp
import optax
from jax import Array

from fedrl.keys import Key
from fedrl.local.actor_critic import actor_critic, surrogate
from fedrl.local.actor_critic_records import ActorCritic, Batch, Improvement
from fedrl.local.learner import BuildLearner
from fedrl.local.minibatches import descend
from fedrl.local.steps import Rate, adam, constant
from fedrl.trees import Tree
from fedrl.types import Policy


def tac(
    *,
    q: float = 1.5,
    alpha: Rate = constant(0.01),
    optimiser: optax.GradientTransformation = adam(clip=0.5),
    rate: Rate = constant(1e-3),
    epochs: int = 1,
    minibatch: int = 64,
    **settings: Any,
) -> BuildLearner:
    """TAC (Lee et al. 2019) on the batch just rolled out: ascends mean(rho A) + alpha mean(S_q(pi(.|s))).

    `q` is the entropic index: 1 gives Shannon's entropy and thus the usual actor-critic, 2 the sparse one. rho is one at
    the first minibatch and accounts for what the earlier ones moved. `alpha` and `rate` go by round; the other settings
    are those of `ActorCritic`.

    Unlike the paper, whose critics learn from a replay buffer and count the entropy of all later steps, this is the
    on-policy form: a drop-in for PPO, as 001 (Fig. 6f) uses it.
    """
    if not q > 0:
        raise ValueError(f"the entropic index q must be positive, got {q}; between 1 and 2 is usual")

    def improvement(policy: Policy) -> Improvement:
        if not policy.tsallis:
            raise ValueError("TAC wants a policy with closed-form Tsallis entropies; use fedrl.policies.mlp")
        tsallis = policy.tsallis

        def improve(actor: Tree, state: optax.OptState, batch: Batch, round: Array, key: Key) -> tuple[Tree, Any]:
            def loss(new: Tree, rows: Batch) -> Array:
                return -surrogate(policy, new, rows) - alpha(round) * jnp.mean(tsallis(new, rows.obs, q))

            return descend(
                loss, actor, state, batch, key,
                optimiser=optimiser, rate=rate(round), epochs=epochs, minibatch=minibatch,
            )  # fmt: skip

        return Improvement(optimiser.init, improve)

    return actor_critic(improvement, ActorCritic(**settings))
