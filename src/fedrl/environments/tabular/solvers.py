"""Exact quantities of one finite MDP by linear solves; `vmap` over a stack of MDPs for many clients.

Everything is differentiable (except `optimal` and `soft_optimal`) and keeps the dtype of its inputs. `pi` is a table
[S, A] of action probabilities, `theta` the parameters of a `Policy` that has a `table`.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.environments.tabular.finite import MDP
from fedrl.trees import Tree
from fedrl.types import Policy


def induced(mdp: MDP, pi: Array) -> tuple[Array, Array]:
    """The Markov chain under pi: P^pi [S, S] and r^pi [S]."""
    return jnp.einsum("sa,sat->st", pi, mdp.kernel), jnp.sum(pi * mdp.reward, axis=-1)


def discounted(chain: Array, reward: Array, gamma: float | Array) -> Array:
    """The solution of V = reward + gamma * chain V."""
    v: Array = jnp.linalg.solve(jnp.eye(chain.shape[-1], dtype=chain.dtype) - gamma * chain, reward)
    return v


def truncated(chain: Array, reward: Array, gamma: float | Array, horizon: int) -> Array:
    """The first `horizon` terms of that solution: the value of episodes that end after so many steps."""
    v, _ = jax.lax.scan(lambda v, _: (reward + gamma * chain @ v, None), jnp.zeros_like(reward), None, length=horizon)
    return v


def value(mdp: MDP, pi: Array, gamma: float | Array) -> Array:
    """V^pi [S], `labbi2025`, Eq. (11). gamma = 0 is the expected immediate reward."""
    return discounted(*induced(mdp, pi), gamma)


def lookahead(mdp: MDP, v: Array, gamma: float | Array) -> Array:
    """One Bellman step: r(s, a) + gamma * E[v(s') | s, a], [S, A]."""
    return mdp.reward + gamma * jnp.einsum("sat,t->sa", mdp.kernel, v)


def q_value(mdp: MDP, pi: Array, gamma: float | Array) -> Array:
    return lookahead(mdp, value(mdp, pi, gamma), gamma)


def advantage(mdp: MDP, pi: Array, gamma: float | Array) -> Array:
    """A^pi = Q^pi - V^pi, [S, A]; its mean under pi is zero in every state."""
    v = value(mdp, pi, gamma)
    return lookahead(mdp, v, gamma) - v[:, None]


def visitation(mdp: MDP, pi: Array, gamma: float | Array) -> Array:
    """d^{rho, pi} [S] = (1 - gamma) sum_t gamma^t P(s_t = s), from `mdp.start`; a distribution."""
    chain, _ = induced(mdp, pi)
    return (1.0 - gamma) * discounted(chain.T, mdp.start, gamma)


def stationary(mdp: MDP, pi: Array) -> Array:
    """The stationary distribution [S] of P^pi, which must have only one recurrent class."""
    chain, _ = induced(mdp, pi)
    one = jnp.ones(chain.shape[-1], chain.dtype)
    system = (jnp.eye(chain.shape[-1], dtype=chain.dtype) - chain).T + one[:, None] * one[None, :]
    distribution: Array = jnp.linalg.solve(system, one)
    return distribution


def deterministic(choice: Array, actions: int, dtype: Any = None) -> Array:
    """The table [S, A] of the policy that plays `choice` [S]."""
    return jax.nn.one_hot(choice, actions, dtype=jnp.result_type(float) if dtype is None else dtype)


def optimal(mdp: MDP, gamma: float | Array) -> tuple[Array, Array]:
    """An optimal deterministic policy (actions [S]) and V* [S], by policy iteration.

    An action is replaced only by one better than rounding error, so that ties do not cycle, and never more than
    10 S A times. The optimum of the imaginary MDP
    (`xie2025`, §2.3) is `optimal(finite.average(mdps, weight), gamma)`.
    """
    states, actions = mdp.reward.shape
    dtype = mdp.reward.dtype

    def improve(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        choice, _, count = carry
        q = q_value(mdp, deterministic(choice, actions, dtype), gamma)
        current = jnp.take_along_axis(q, choice[:, None], axis=-1)[:, 0]
        noise = 8 * jnp.finfo(dtype).eps * (1.0 + jnp.max(jnp.abs(q)))
        improved = jnp.where(jnp.max(q, axis=-1) > current + noise, jnp.argmax(q, axis=-1).astype(jnp.int32), choice)
        return improved, jnp.any(improved != choice), count + 1

    def keep_going(carry: tuple[Array, Array, Array]) -> Array:
        return carry[1] & (carry[2] < 10 * states * actions)

    first = jnp.argmax(mdp.reward, axis=-1).astype(jnp.int32)
    choice, _, _ = jax.lax.while_loop(keep_going, improve, (first, jnp.array(True), jnp.zeros((), jnp.int32)))
    return choice, value(mdp, deterministic(choice, actions, dtype), gamma)


def soft_optimal(mdp: MDP, gamma: float | Array, lam: float) -> tuple[Array, Array]:
    """The policy [S, A] that is best with entropy regularisation, `labbi2025` Eq. (7), and its regularised V* [S].

    By soft policy iteration, pi <- softmax(Q^pi / lam) with Q^pi from a linear solve: it rises in every state, and
    stops when V no longer does beyond rounding. lam > 0; `optimal` is the limit at 0.
    """

    def regularised(pi: Array) -> Array:
        entropy = -jnp.sum(jax.scipy.special.xlogy(pi, pi), axis=-1)
        chain, reward = induced(mdp, pi)
        return discounted(chain, reward + lam * entropy, gamma)

    def improve(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        _, v, count = carry
        better = jax.nn.softmax(lookahead(mdp, v, gamma) / lam)
        return better, regularised(better), count + 1

    def keep_going(carry: tuple[Array, Array, Array]) -> Array:
        _, v, count = carry
        noise = 8 * jnp.finfo(v.dtype).eps * (1.0 + jnp.max(jnp.abs(v)))
        rise = lam * jax.nn.logsumexp(lookahead(mdp, v, gamma) / lam, axis=-1) - v
        return (jnp.max(rise) > noise) & (count < 1000)

    uniform = jnp.full_like(mdp.reward, 1.0 / mdp.reward.shape[-1])
    pi, v, _ = jax.lax.while_loop(keep_going, improve, (uniform, regularised(uniform), jnp.zeros((), jnp.int32)))
    return pi, v


def _choices(policy: Policy, theta: Tree, states: int | None = None) -> tuple[Array, Array]:
    """Log-probabilities [S, C, k] of the decisions behind each choice, and the action each choice means [C].

    A network has no table; it is evaluated at each of the `states`, and its choices are the actions.
    """
    if policy.table is not None:
        table = policy.table(theta)
    elif policy.actions and states:
        obs, choice = (x.reshape(-1) for x in jnp.indices((states, policy.actions), jnp.int32))
        table = policy.log_probs(theta, obs, choice).reshape(states, policy.actions, -1)
    else:
        raise ValueError("exact solvers need policy.table, got a policy without one; use e.g. policies.softmax_table()")
    return table, policy.action(jnp.arange(table.shape[1]))


def probabilities(policy: Policy, theta: Tree, states: int | None = None) -> Array:
    """pi_theta as a table [S, A]: choices that mean the same action are added up. A network needs `states`."""
    table, action = _choices(policy, theta, states)
    fold = jax.nn.one_hot(action, policy.actions, dtype=table.dtype)
    return jnp.exp(jnp.sum(table, axis=-1)) @ fold


def objective(
    policy: Policy,
    theta: Tree,
    mdp: MDP,
    gamma: float,
    lam: float = 0.0,
    bit_discount: float | None = None,
    horizon: int | None = None,
) -> Array:
    """Discounted return plus lam times bit entropy, from `mdp.start`: `labbi2025`.

    lam = 0 is J_sm; k = 1 is J_r (Eq. 7); k > 1 is J_b (Eq. 65), where decision p of the k that make up a choice has
    reward - lam * bit_discount^p * log pibar. `bit_discount` is gamma^(1/k) unless given; the published code uses
    gamma^(1/(k-1)). Where several choices mean one action, the entropy is that of the choice. With `horizon` it counts
    only so many steps: REINFORCE on episodes of that length is unbiased for its gradient, not for that of the whole.
    """
    table, action = _choices(policy, theta)
    count = table.shape[-1]
    discount = gamma ** (1.0 / count) if bit_discount is None else bit_discount
    entropy = -(table @ jnp.asarray(discount, table.dtype) ** jnp.arange(count, dtype=table.dtype))
    pi = jnp.exp(jnp.sum(table, axis=-1))
    reward = jnp.sum(pi * (mdp.reward[:, action] + lam * entropy), axis=-1)
    chain = jnp.einsum("sc,sct->st", pi, mdp.kernel[:, action])
    values = discounted(chain, reward, gamma) if horizon is None else truncated(chain, reward, gamma, horizon)
    return jnp.dot(mdp.start, values)


gradient = jax.grad(objective, argnums=1)
"""d objective / d theta, exactly; same arguments as `objective`."""


def policy_gradient(theta: Array, mdp: MDP, gamma: float, lam: float = 0.0) -> Array:
    """The same gradient for a softmax table theta [S, A] by the policy gradient theorem: `labbi2025`, Eq. (64).

    d(s) pi(a|s) (Q(s, a) - lam log pi(a|s) - V(s)) / (1 - gamma) with regularised Q and V.
    """
    log_pi = jax.nn.log_softmax(theta)
    pi = jnp.exp(log_pi)
    regularised = mdp._replace(reward=mdp.reward - lam * log_pi)
    occupancy = visitation(mdp, pi, gamma)
    return occupancy[:, None] * pi * advantage(regularised, pi, gamma) / (1.0 - gamma)


def average_value(env_params: MDP, pi: Array, gamma: float | Array, weight: Array | None = None) -> Array:
    """J(pi) = sum_c q_c rho_c . V_c^pi over a stack of MDPs: `labbi2025`, Eq. (1); equal weights by default."""
    return weighted(jax.vmap(lambda mdp: jnp.dot(mdp.start, value(mdp, pi, gamma)))(env_params), weight)


def average_objective(
    policy: Policy,
    theta: Tree,
    env_params: MDP,
    gamma: float,
    lam: float = 0.0,
    bit_discount: float | None = None,
    weight: Array | None = None,
) -> Array:
    """F(theta) = sum_c q_c f_c(theta) with f_c the `objective` of client c."""
    return weighted(jax.vmap(lambda mdp: objective(policy, theta, mdp, gamma, lam, bit_discount))(env_params), weight)


def weighted(per_client: Array, weight: Array | None) -> Array:
    """Mean over the leading axis with weights q, or plain."""
    return (
        jnp.mean(per_client, axis=0)
        if weight is None
        else jnp.tensordot(weight.astype(per_client.dtype), per_client, axes=1)
    )
