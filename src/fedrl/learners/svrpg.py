"""Variance-reduced momentum direction of FedSVRPG-M: Wang et al. 2024, Eqs. (2) and (4)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.arguments import at_least, checked
from fedrl.environments.protocol import Environment
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, Direction
from fedrl.learners.optimizers import Schedule
from fedrl.learners.reinforce import reward_to_go, scores
from fedrl.learners.reports import EPISODES, WEIGHTS, Report, aside, first_episodes, importance, measured
from fedrl.learners.safeguards import Baseline, centred, check_safeguards, momentum, stepped, truncated
from fedrl.policies.kinds import require_gradient
from fedrl.rollouts.episodes import env_steps, sampler
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory


class Anchor(NamedTuple):
    """What the server of FedSVRPG-M sends: theta_r, theta_{r-1}, u_r."""

    theta: Tree
    theta_prev: Tree
    u: Tree
    selection: Tree = ()  # what a selection announces to the clients that train
    round: Tree = ()  # r, if the step size decays


@checked
def svrpg(
    *,
    beta: float,
    horizon: int,
    batch: int = 1,
    corrected: bool = True,
    weight_limit: float | None = None,
    clip: float | None = None,
    baseline: Baseline | None = None,
    decay: Schedule | None = None,
) -> BuildDirection:
    """beta g(theta) + (1 - beta) [u + g(theta) - w g(theta_prev)] from episodes sampled under `theta`.

    beta = 1 is plain REINFORCE. The paper samples one episode per local step (`batch` = 1). corrected=False drops the
    term -w g(theta_prev). That is not the paper's method but heavy-ball momentum, whose steps add up to 1 / beta; it exists
    because it alone reproduces the order in the paper's Table 2 (docs/reproductions.md).

    The last four are safeguards (`safeguards.py`), not the paper's: w is at most `weight_limit`; the direction has at most
    the norm `clip`; `baseline` is subtracted from the reward to go; `decay` lets eta fall, and beta as its square.

    Reports the metrics of `reinforce`. Where w is used, also, of w before it is truncated, mean_weight, near 1 on average
    unless weights vanish; largest_weight; and effective_share, (sum w)^2 / (batch * sum w^2): 1 while theta is theta_prev
    and always at batch = 1, 1 / batch if one episode has all the weight.
    """
    at_least(0, beta=beta)
    at_least(1, horizon=horizon, batch=batch)
    check_safeguards(weight_limit, clip, baseline, batch)
    weighs = corrected and (beta != 1.0 or decay is not None)

    def build(environment: Environment, policy: Policy) -> Direction:
        require_gradient("svrpg", policy)
        act = sampler(environment, policy, horizon=horizon, batch=batch)

        def learn(
            theta: Tree, anchor: Anchor, trajectory: Trajectory, client: Client, key: Key
        ) -> tuple[Tree, Array, Report]:
            to_go = centred(reward_to_go(environment, policy, theta, trajectory), baseline)
            mean = jnp.full((batch,), 1.0 / batch, to_go.dtype)
            score_at = scores(policy, theta, trajectory, to_go)
            u = score_at(theta, mean)
            report = first_episodes(aside(trajectory))
            keep = 1.0 - momentum(beta, decay, anchor.round)
            if weighs:
                weight = importance_weight(policy, anchor.theta_prev, theta, trajectory)
                g_prev = score_at(anchor.theta_prev, mean * truncated(weight, weight_limit))
                report |= measured(importance(aside(weight)))
                # beta g + (1 - beta)(u + g - w g') = g + (1 - beta)(u - w g')
                u = trees.add(u, trees.scale(keep, trees.subtract(anchor.u, g_prev)))
            elif beta != 1.0 or decay is not None:
                u = trees.add(u, trees.scale(keep, anchor.u))
            return stepped(u, clip, decay, anchor.round), env_steps(trajectory), report

        return Direction(
            lambda theta, anchor, client, key: act(theta, client, key),
            learn,
            most_env_steps=horizon * batch,
            reports=(*EPISODES, *WEIGHTS) if weighs else EPISODES,
            episodes=(batch, horizon),
        )

    return build


def importance_weight(policy: Policy, theta_new: Tree, theta: Tree, trajectory: Trajectory) -> Array:
    """w(tau | theta_new, theta) of Eq. (2), one per episode [B]; averages to one over episodes sampled under `theta`."""
    new, old = (log_likelihood(policy, at, trajectory) for at in (theta_new, theta))
    return jax.lax.stop_gradient(jnp.exp(new - old))


def log_likelihood(policy: Policy, theta: Tree, trajectory: Trajectory) -> Array:
    """log p(tau | theta) of every episode [B], up to terms that do not depend on theta."""
    log_probs = jnp.sum(policy.log_probs(theta, trajectory.obs, trajectory.choice), axis=-1)
    return jnp.sum(jnp.where(trajectory.alive, log_probs, jnp.zeros_like(log_probs)), axis=1)
