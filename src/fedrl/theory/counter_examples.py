"""Two-agent instances on which sharing a policy costs something: `labbi2025` Theorem 3.1 and Lemma E.9.

Each `lemma_*` is a stack of two MDPs that share rewards and start and differ in kernels; each `gap_*` returns the two
sides of the strict inequality the lemma claims. The figures that draw the instances are rebuilt here from the proofs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl.environments.tabular import solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.theory import common_policies

GAMMA = 0.9
GAMMA_E9 = 0.999
LAMBDA_E9 = 1.0
_P_E9, _Q_E9 = (0.0, 0.99), (1.0, 0.01)


class Gap(NamedTuple):
    smaller: Array  # best of the restricted class (Lemma E.9: J_r in the valley)
    larger: Array  # value of a richer class (Lemma E.9: the lower of the two hills)


def lemma_b1() -> MDP:
    """No optimal local history-dependent policy (Figure 2, after Jin et al. 2022, Thm 1). Start (1/2, 1/2).

    s0 pays 1 and is absorbing. In s1, a0 pays 0 and stays; a1 pays -1 and leads to s0 for agent 2 only. Agent 1 should
    never play a1 there, agent 2 at once; they cannot tell which agent they are before one of them has paid.
    """
    return _pair([{(1, 1): 1}, {(1, 1): 0}], reward=[[1, 1], [0, -1]], start=[0.5, 0.5])


def lemma_b2() -> MDP:
    """No optimal stationary policy (Figure 3). Start in s0.

    Agent 2 goes s0 -> s3, agent 1 s0 -> s1 -> s3. In s3, a0 pays 1 and a1 pays 2; agent 1 always stays there, agent 2
    stays by a0 and falls by a1 into s2, which is absorbing and pays nothing. So agent 2 arrives at t = 1, agent 1 at t
    = 2.
    """
    first = {(0, 0): 1, (0, 1): 1, (1, 0): 3, (1, 1): 3}
    second = {(0, 0): 3, (0, 1): 3, (1, 0): 3, (1, 1): 3, (3, 1): 2}
    return _pair([first, second], reward=[[0, 0], [0, 0], [0, 0], [1, 2]], start=[1, 0, 0, 0])


def lemma_b3() -> MDP:
    """No optimal deterministic policy (Figure 4). Start in s2.

    s0 and s1 are absorbing and pay 10, s2 pays nothing. By a0 agent 2 enters s0 and agent 1 stays, by a1 agent 1 enters
    s1 and agent 2 stays: one action each way leaves one of them behind, a coin frees both.
    """
    return _pair([{(2, 1): 1}, {(2, 0): 0}], reward=[[10, 10], [10, 10], [0, 0]], start=[0, 0, 1])


def lemma_e9() -> MDP:
    """J_r with a valley between two hills (Figure 5). Start in s0; use GAMMA_E9 and LAMBDA_E9.

    s0 leads to s1 with probability p_c by a0 and q_c by a1, else stays; s1 pays 1 and leads to s2. The proof's
    occupancies end after s2 (d(s2) = gamma d(s1)), which a kernel cannot: here s2 leads to an absorbing s3 whose reward
    -lambda log 2 cancels its entropy under the uniform policy, which is optimal there, so the proof's J_r holds
    exactly.
    """
    dtype = jnp.result_type(float)
    kernel = np.zeros((2, 4, 2, 4))
    for agent, leave in enumerate(zip(_P_E9, _Q_E9, strict=True)):
        kernel[agent, 0, :, 1] = leave
        kernel[agent, 0, :, 0] = 1.0 - np.array(leave)
    kernel[:, 1, :, 2] = kernel[:, 2, :, 3] = kernel[:, 3, :, 3] = 1.0
    reward = np.repeat([[0.0], [1.0], [0.0], [-LAMBDA_E9 * np.log(2.0)]], 2, axis=1)
    return _stack(kernel, reward, np.array([1.0, 0.0, 0.0, 0.0]), dtype)


def gap_b1() -> Gap:
    """Best local history-dependent policy (27/4) against the best agent-aware one (7)."""
    env_params = lemma_b1()
    return Gap(
        common_policies.best_local_history(env_params, GAMMA), common_policies.best_agent_aware(env_params, GAMMA)
    )


def gap_b2() -> Gap:
    """Best stationary policy, gamma^2/(1-gamma) + gamma = 9, against a0 in s3 at t = 1 and a1 later, 9.36.

    The proof's second sum has p and 1 - p exchanged; corrected in `stationary_b2`, whose maximum is still the proof's
    bound. A policy that remembers how it came to s3 tells the agents apart and gets 12.6.
    """
    env_params = lemma_b2()
    early, late = (solvers.deterministic(jnp.full(4, action), 2) for action in (0, 1))
    values = jax.vmap(lambda mdp: schedule_value(mdp, [early, early, late], GAMMA))(env_params)
    return Gap(common_policies.best_stationary(env_params, GAMMA).value, jnp.mean(values))


def gap_b3() -> Gap:
    """Best deterministic policy, 5 gamma/(1-gamma) = 45, against the fair coin, 900/11.

    The proof writes 10 gamma/(1 - gamma/2) for the time lost in s2, which is 5 gamma/(1 - gamma/2); both give its
    claim.
    """
    env_params = lemma_b3()
    coin = jnp.full((3, 2), 0.5)
    return Gap(
        common_policies.best_deterministic(env_params, GAMMA).value, solvers.average_value(env_params, coin, GAMMA)
    )


def gap_e9(points: int = 20001) -> Gap:
    """J_r in the valley against the lower of the two hills around it, on a grid of logits of a1 against a0 in s0.

    With uniform policies in the other states, where they are optimal.
    """
    logit = jnp.linspace(-12.0, 12.0, points)
    height = jax.vmap(regularised_e9)(logit)
    left = jax.lax.cummax(height)
    right = jax.lax.cummax(height, reverse=True)
    bottom = jnp.argmax(jnp.minimum(left, right) - height)
    return Gap(height[bottom], jnp.minimum(left, right)[bottom])


def stationary_b2(p: Array) -> Array:
    """J on `lemma_b2` of the stationary policy with pi(a0 | s3) = p. Convex in p, so its maximum is at an end."""
    first = (2.0 - p) * GAMMA**2 / (1.0 - GAMMA)
    second = GAMMA / (1.0 - GAMMA) * (1.0 + (1.0 - 2.0 * GAMMA) * (1.0 - p) / (1.0 - GAMMA * p))
    return 0.5 * (first + second)


def regularised_e9(logit: Array) -> Array:
    """J_r on `lemma_e9` in closed form (proof of Lemma E.9) with x = sigmoid(logit) = pi(a1 | s0)."""
    x = jax.nn.sigmoid(logit)
    entropy = -x * jax.nn.log_sigmoid(logit) - (1.0 - x) * jax.nn.log_sigmoid(-logit)

    def one(p: float, q: float) -> Array:
        f = p + (q - p) * x
        paid = 1.0 + LAMBDA_E9 * np.log(2.0).item() * (1.0 + GAMMA_E9)
        value: Array = (LAMBDA_E9 * entropy + GAMMA_E9 * f * paid) / (1.0 - GAMMA_E9 * (1.0 - f))
        return value

    value: Array = 0.5 * (one(_P_E9[0], _Q_E9[0]) + one(_P_E9[1], _Q_E9[1]))
    return value


def schedule_value(mdp: MDP, tables: list[Array], gamma: float) -> Array:
    """Value from `mdp.start` of the policy that plays tables[t] at time t and the last one for ever after."""
    v = solvers.value(mdp, tables[-1], gamma)
    for pi in reversed(tables[:-1]):
        v = jnp.sum(pi * solvers.lookahead(mdp, v, gamma), axis=-1)
    return jnp.dot(mdp.start, v)


def _pair(moves: list[dict[tuple[int, int], int]], reward: Sequence[Sequence[float]], start: Sequence[float]) -> MDP:
    """Two deterministic MDPs; `moves` maps (state, action) to its successor; missing pairs stay in their state."""
    states, actions = len(reward), len(reward[0])
    kernel = np.zeros((2, states, actions, states))
    for agent, successor in enumerate(moves):
        for state, action in np.ndindex(states, actions):
            kernel[agent, state, action, successor.get((state, action), state)] = 1.0
    return _stack(kernel, np.array(reward), np.array(start), jnp.result_type(float))


def _stack(kernel: np.ndarray, reward: np.ndarray, start: np.ndarray, dtype: Any) -> MDP:
    return MDP(*(jnp.asarray(x, dtype) for x in (kernel, np.stack([reward] * 2), np.stack([start] * 2))))
