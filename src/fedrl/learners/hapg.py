"""Hessian-aided momentum direction of FedHAPG-M: Wang et al. 2024, §5.2, Algorithm 2 and Eq. (5)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys, trees
from fedrl.arguments import at_least, checked
from fedrl.environments.protocol import Environment
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, Direction
from fedrl.learners.optimizers import Schedule
from fedrl.learners.reinforce import reward_to_go, scores
from fedrl.learners.reports import EPISODES, WEIGHTS, Report, aside, first_episodes, importance, measured
from fedrl.learners.safeguards import Baseline, centred, check_safeguards, momentum, stepped, truncated
from fedrl.learners.svrpg import Anchor, importance_weight, log_likelihood
from fedrl.policies.kinds import require_gradient
from fedrl.rollouts.episodes import env_steps, sampler
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory


@checked
def hapg(
    *,
    beta: float,
    horizon: int,
    batch: int = 1,
    weight_limit: float | None = None,
    clip: float | None = None,
    baseline: Baseline | None = None,
    decay: Schedule | None = None,
) -> BuildDirection:
    """beta w g(theta) + (1 - beta) [u + Lambda] from episodes sampled under theta(alpha), alpha uniform on [0, 1].

    Lambda estimates grad J_i(theta) - grad J_i(theta_prev): the integral of the Hessian along the segment between them
    (the paper leaves the i out there). beta = 1 leaves w g(theta), which is off-policy REINFORCE with importance sampling.
    The paper samples one episode per local step; with `batch` > 1 all share that step's alpha, which is still unbiased.

    The last four are the safeguards of `svrpg`; Lambda, in which w = 1, is not truncated.

    Reports the metrics of `reinforce` on the episodes sampled under theta(alpha), and, as `svrpg` does, mean_weight,
    largest_weight and effective_share of the w.
    """
    at_least(0, beta=beta)
    at_least(1, horizon=horizon, batch=batch)
    check_safeguards(weight_limit, clip, baseline, batch)

    def build(environment: Environment, policy: Policy) -> Direction:
        require_gradient("hapg", policy)
        act = sampler(environment, policy, horizon=horizon, batch=batch)

        def sample(theta: Tree, anchor: Anchor, client: Client, key: Key) -> Trajectory:
            return act(on_segment(theta, anchor.theta_prev, key), client, key)

        def learn(
            theta: Tree, anchor: Anchor, trajectory: Trajectory, client: Client, key: Key
        ) -> tuple[Tree, Array, Report]:
            theta_alpha = on_segment(theta, anchor.theta_prev, key)
            gradient = g_at = reweighted(environment, policy, theta_alpha, trajectory, baseline=baseline)
            if weight_limit is not None:
                g_at = reweighted(
                    environment, policy, theta_alpha, trajectory, weight_limit=weight_limit, baseline=baseline
                )
            g = g_at(theta)
            report = first_episodes(aside(trajectory)) | measured(
                importance(weights(*aside((theta, theta_alpha, trajectory))))
            )
            if beta == 1.0 and decay is None:
                return stepped(g, clip, decay, anchor.round), env_steps(trajectory), report
            v = trees.subtract(theta, anchor.theta_prev)
            # d/d theta of w g along v, at theta(alpha) where w = 1: <grad log p, v> g + grad <g, v>, Eq. (5)
            _, lambda_ = jax.jvp(gradient, (theta_alpha,), (v,))
            share = momentum(beta, decay, anchor.round)
            u = trees.add(trees.scale(share, g), trees.scale(1.0 - share, trees.add(anchor.u, lambda_)))
            return stepped(u, clip, decay, anchor.round), env_steps(trajectory), report

        def weights(theta: Tree, theta_alpha: Tree, trajectory: Trajectory) -> Array:
            return importance_weight(policy, theta, theta_alpha, trajectory)

        return Direction(
            sample,
            learn,
            most_env_steps=horizon * batch,
            reports=(*EPISODES, *WEIGHTS),
            episodes=(batch, horizon),
        )

    return build


def on_segment(theta: Tree, theta_prev: Tree, key: Key) -> Tree:
    """theta(alpha) = alpha theta_prev + (1 - alpha) theta, to the bit `theta` where the two are equal.

    Algorithm 2 lets alpha weight theta_prev; either end would do, because alpha is uniform and Appendix D uses only that.
    """
    alpha = jax.random.uniform(keys.of(key, "alpha"))
    return jax.tree.map(lambda now, prev: now + alpha.astype(now.dtype) * (prev - now), theta, theta_prev)


def reweighted(
    environment: Environment,
    policy: Policy,
    theta_alpha: Tree,
    trajectory: Trajectory,
    *,
    weight_limit: float | None = None,
    baseline: Baseline | None = None,
) -> Callable[[Tree], Tree]:
    """The function theta -> mean of w(tau | theta, theta_alpha) g(tau | theta), unbiased for grad J_i unless w is truncated.

    `trajectory` was sampled under `theta_alpha`; w is p(tau | theta) / p(tau | theta_alpha), arguments as in Eq. (2) and
    Algorithm 2. Differentiable forwards, weights included, at a few times the cost of its value; no matrix is formed.
    """
    to_go = centred(reward_to_go(environment, policy, theta_alpha, trajectory), baseline)
    score_at = scores(policy, theta_alpha, trajectory, to_go)
    log_p_alpha = log_likelihood(policy, theta_alpha, trajectory)

    def gradient(theta: Tree) -> Tree:
        weight = jnp.exp(log_likelihood(policy, theta, trajectory) - log_p_alpha).astype(to_go.dtype)
        return score_at(theta, truncated(weight, weight_limit) / weight.shape[0])

    return gradient
