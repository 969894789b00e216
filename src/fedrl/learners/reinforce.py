"""REINFORCE with reward-to-go, plain or regularised: Labbi et al. 2025, Eqs. (6), (9), (10); Wang et al. 2024, §3.2.

One estimator serves all: an action is k decisions (one for the softmax table, k bits for the bit-level softmax), and the
regularised reward is spread over them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.arguments import above, at_least, at_most, checked
from fedrl.environments.protocol import Environment
from fedrl.keys import Key
from fedrl.learners.gradient_steps import BuildDirection, Direction
from fedrl.learners.reports import EPISODES, Report, aside, first_episodes
from fedrl.policies.kinds import require_gradient
from fedrl.rollouts.episodes import env_steps
from fedrl.rollouts.sampling import make_sampler
from fedrl.trees import Tree
from fedrl.types import Client, Policy, Trajectory


@checked
def reinforce(*, horizon: int, batch: int = 1, lam: float = 0.0, bit_discount: float | None = None) -> BuildDirection:
    """Gradient estimate from `batch` episodes of length `horizon` (B and T of labbi2025; H of wang2024).

    lam = 0 is Eq. (6), lam > 0 with a softmax table Eq. (9), lam > 0 with a bit-level softmax Eq. (10).
    `bit_discount` is the base by which the regulariser of bit q is discounted; None: gamma^(1/k), the paper's.
    Reports episode_return (undiscounted) and episode_length of its episodes. It reports no gradient norm: computing one
    would use the gradient a second time, which changes the last bits of training.
    """
    at_least(1, horizon=horizon, batch=batch)
    at_least(0, "0 does not regularise", lam=lam)
    if bit_discount is not None:
        above(0, "None takes the paper's", bit_discount=bit_discount)
        at_most(1, "None takes the paper's", bit_discount=bit_discount)

    def build(environment: Environment, policy: Policy) -> Direction:
        require_gradient("reinforce", policy)
        sampling = make_sampler(environment, policy, lambda theta, client: theta, horizon=horizon, batch=batch)

        def learn(
            theta: Tree, message: Tree, trajectory: Trajectory, client: Client, key: Key
        ) -> tuple[Tree, Array, Report]:
            to_go = reward_to_go(environment, policy, theta, trajectory, lam=lam, bit_discount=bit_discount)
            weight = jnp.full((batch,), 1.0 / batch, to_go.dtype)
            return (
                scores(policy, theta, trajectory, to_go)(theta, weight),
                env_steps(trajectory),
                first_episodes(aside(trajectory)),
            )

        def sample(theta: Tree, message: Tree, client: Client, *rest: Tree) -> Tree:
            return sampling.sample(theta, client, *rest)

        return Direction(
            sample,
            learn,
            sampling.shared_env,
            sampling.init_shared_state,
            most_env_steps=horizon * batch,
            reports=EPISODES,
            episodes=(batch, horizon),
        )

    return build


def reward_to_go(
    environment: Environment,
    policy: Policy,
    theta: Tree,
    trajectory: Trajectory,
    *,
    lam: float = 0.0,
    bit_discount: float | None = None,
) -> Array:
    """The credit of each decision [B, T, k]: the reward from that decision on, discounted from time zero.

    Unlike Eq. (10) as printed, the reward of time p is weighted by gamma^p alone, not gamma^p * gammabar^(k-1), and the sum
    runs over all kT bits: that is the bit-level MDP of App. F.1, of which the estimator must be unbiased (up to T).
    """
    k, gamma = policy.decisions, environment.gamma
    base = gamma ** (1.0 / k) if bit_discount is None else bit_discount
    horizon = trajectory.reward.shape[1]
    discount = jnp.asarray(gamma, trajectory.reward.dtype) ** jnp.arange(horizon, dtype=trajectory.reward.dtype)
    rewards = (discount[None, :] * trajectory.reward)[..., None]
    if k > 1:  # the reward comes with the last bit
        rewards = jnp.pad(rewards, ((0, 0), (0, 0), (k - 1, 0)))
    if lam:
        spread = base ** jnp.arange(k, dtype=trajectory.reward.dtype)
        surprise = -policy.log_probs(theta, trajectory.obs, trajectory.choice) * trajectory.alive[..., None].astype(
            trajectory.reward.dtype
        )
        rewards = rewards + lam * discount[None, :, None] * spread[None, None, :] * surprise
    flat = rewards.reshape(rewards.shape[0], -1)
    return jax.lax.stop_gradient(jax.lax.cumsum(flat, axis=1, reverse=True).reshape(rewards.shape))


def scores(policy: Policy, theta: Tree, trajectory: Trajectory, credit: Array) -> Callable[[Tree, Array], Tree]:
    """The function (theta, weight [B]) -> sum over episodes b of weight[b] times their sum of credit * grad log pi.

    If observations and choices are finite, the sum over time is computed only once, as a table [B, S, C, k], however many
    times the function is then called.
    """
    credit = credit * trajectory.alive[..., None].astype(credit.dtype)

    def surrogate(theta: Tree, weight: Array) -> Array:
        return jnp.sum(weight[:, None, None] * credit * policy.log_probs(theta, trajectory.obs, trajectory.choice))

    if policy.table is None:
        return jax.grad(surrogate)
    table = policy.table
    states, choices, k = jax.eval_shape(table, theta).shape

    def episode(index: Array, credit: Array) -> Array:
        return jnp.zeros((states * choices, k), credit.dtype).at[index].add(credit)

    tables = jax.vmap(episode)(trajectory.obs * choices + trajectory.choice, credit).reshape(-1, states, choices, k)

    def score_at(theta: Tree, weight: Array) -> Tree:
        (gradient,) = jax.vjp(table, theta)[1](trees.weighted_sum(weight, tables))
        return gradient

    return score_at
