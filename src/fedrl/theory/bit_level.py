"""The bit-level MDP behind b-RS-FedPG and the radii of its projection: `labbi2025` App. E.3 and F."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.environments.tabular import solvers
from fedrl.environments.tabular.finite import MDP
from fedrl.policies.bit_softmax import bits_for
from fedrl.types import Policy


def bit_discount(gamma: float, k: int) -> float:
    """gammabar = gamma^(1/k): k bits make one step of the original MDP."""
    discount: float = gamma ** (1.0 / k)
    return discount


def bit_level_mdp(mdp: MDP, gamma: float, k: int | None = None) -> MDP:
    """The two-action MDP on S x (words shorter than k), to be discounted by `bit_discount(gamma, k)`: App. F.1.

    State (s, w) has index s * (2^k - 1) + node(w) in the heap order of `policies.bit_softmax`, so a bit-level theta [S,
    2^k - 1, 2] reshaped to [S (2^k - 1), 2] is a softmax table here. The last bit pays gammabar^-(k-1) r(s, a); the
    start is (s, empty word). k = 1 with two actions gives back `mdp`. Words beyond the last action mean the last
    action.

    Unlike the paper, which counts |S| 2^(k-1) states, there are |S| (2^k - 1), the number of pairs it defines.
    """
    states, actions = mdp.reward.shape
    k = bits_for(actions) if k is None else k
    if 2**k < actions:
        raise ValueError(f"{k} bits name {2**k} actions but the MDP has {actions}; use k >= {bits_for(actions)}")
    nodes, leaves = 2**k - 1, 2 ** (k - 1) - 1
    dtype = mdp.kernel.dtype
    kernel = jnp.zeros((states, nodes, 2, states, nodes), dtype)
    inner = np.arange(leaves)[:, None]
    bit = np.arange(2)[None, :]
    stay = jnp.eye(states, dtype=dtype)[:, None, None, :]
    kernel = kernel.at[:, inner, bit, :, 2 * inner + 1 + bit].set(jnp.moveaxis(jnp.tile(stay, (1, leaves, 2, 1)), 0, 2))
    action = np.minimum(np.arange(2**k), actions - 1)
    ends = mdp.kernel[:, action].reshape(states, 2 ** (k - 1), 2, states)
    kernel = kernel.at[:, leaves:, :, :, 0].set(ends)
    last_bit_reward = bit_discount(gamma, k) ** -(k - 1) * mdp.reward[:, action].reshape(states, 2 ** (k - 1), 2)
    reward = jnp.zeros((states, nodes, 2), dtype).at[:, leaves:].set(last_bit_reward)
    start = jnp.zeros((states, nodes), dtype).at[:, 0].set(mdp.start)
    return MDP(kernel.reshape(states * nodes, 2, states * nodes), reward.reshape(-1, 2), start.reshape(-1))


def entropy_regularised(mdp: MDP, log_pi: jax.Array, lam: float) -> MDP:
    """`mdp` with reward r - lam log pi: its value under pi is the entropy-regularised one, Eq. (7)."""
    return mdp._replace(reward=mdp.reward - lam * log_pi)


def best_objective(policy: Policy, mdp: MDP, gamma: float, lam: float = 0.0) -> jax.Array:
    """sup of `solvers.objective` over theta, exactly: J_sm* at lam = 0, J_r* of a softmax table, J_b* of a bit-level one."""
    if lam == 0.0:
        return jnp.dot(mdp.start, solvers.optimal(mdp, gamma)[1])
    k = policy.decisions
    whole, discount = (bit_level_mdp(mdp, gamma, k), bit_discount(gamma, k)) if k > 1 else (mdp, gamma)
    return jnp.dot(whole.start, solvers.soft_optimal(whole, discount, lam)[1])


def projection_radius(lam: float, gamma: float, k: int = 1) -> float:
    """R_b(lam) = (1 + lam log 2) / (lam (1 - gamma^(1/k))), App. F.2: the l_inf ball b-RS-FedPG projects onto.

    k = 1 is R(lam) of App. E.3, for RS-FedPG with two actions. Holds for rewards in [0, 1].
    """
    if not lam > 0.0:
        raise ValueError(f"the projection radius needs lam > 0, got {lam}; without regularisation do not project")
    return (1.0 + lam * math.log(2.0)) / (lam * (1.0 - bit_discount(gamma, k)))
