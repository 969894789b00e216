"""The best policy that all clients can share, in each of the four classes of `labbi2025` Theorem 3.1.

Deterministic <= stationary <= local history-dependent <= agent-aware. The first and the last two are exact; the
stationary one is a non-concave problem (finding its optimum is NP-hard: `xie2025` §2.1) and is searched from
many starts.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.environments.tabular import finite, solvers
from fedrl.environments.tabular.finite import MDP

LIMIT = 2_000_000  # most deterministic policies worth enumerating


class Best(NamedTuple):
    pi: Array  # [S, A]
    value: Array  # J(pi), averaged over clients and their starts


def best_deterministic(
    env_params: MDP, gamma: float, weight: Array | None = None, *, limit: int = LIMIT, chunk: int = 1024
) -> Best:
    """The best of all A^S deterministic policies, by trying each; `chunk` at a time. First one on ties."""
    states, actions = env_params.reward.shape[1:]
    total = actions**states
    if total > limit:
        raise ValueError(
            f"{actions} actions in {states} states make {total:.3g} deterministic policies, more than limit={limit}; "
            "use best_stationary, or raise `limit` and wait"
        )
    best: Best = _enumerate(env_params, gamma, weight, chunk=min(chunk, total))
    return best


def best_stationary(
    env_params: MDP,
    gamma: float,
    weight: Array | None = None,
    *,
    starts: int = 64,
    steps: int = 400,
    key: keys.Key | None = None,
) -> Best:
    """The best stationary stochastic policy found by mirror ascent on the exact J(pi) from many starts.

    Each step is pi <- pi exp(step * g) / Z with g = dJ/dpi scaled state by state; it is kept only if J does not fall,
    and the step then grows by half, else it halves. So every run is monotone and needs no tuning of a rate. Starts: `starts`
    random softmax tables, the uniform policy, the optimum of each client and of the imaginary MDP and, where they can
    be enumerated quickly, the best deterministic policy; these optima themselves are also candidates. The result is
    a lower bound of the maximum, and in small instances the maximum.
    """
    key = keys.of_seed(0) if key is None else key
    best: Best = _search(env_params, gamma, weight, key, starts=starts, steps=steps)
    return best


@partial(jax.jit, static_argnames="chunk")
def _enumerate(env_params: MDP, gamma: Array, weight: Array | None, *, chunk: int) -> Best:
    states, actions = env_params.reward.shape[1:]
    dtype = env_params.reward.dtype
    total = actions**states
    digits = jnp.asarray(actions ** np.arange(states), jnp.int32)

    def table(index: Array) -> Array:
        return solvers.deterministic(index // digits % actions, actions, dtype)

    def look(best: tuple[Array, Array], first: Array) -> tuple[tuple[Array, Array], None]:
        index = jnp.minimum(first + jnp.arange(chunk, dtype=jnp.int32), total - 1)
        values = jax.vmap(lambda i: solvers.average_value(env_params, table(i), gamma, weight))(index)
        top = jnp.argmax(values)
        better = values[top] > best[0]
        return (jnp.where(better, values[top], best[0]), jnp.where(better, index[top], best[1])), None

    start = (jnp.array(-jnp.inf, dtype), jnp.zeros((), jnp.int32))
    (value, index), _ = jax.lax.scan(look, start, jnp.arange(0, total, chunk, dtype=jnp.int32))
    return Best(table(index), value)


@partial(jax.jit, static_argnames=("starts", "steps"))
def _search(env_params: MDP, gamma: Array, weight: Array | None, key: keys.Key, *, starts: int, steps: int) -> Best:
    states, actions = env_params.reward.shape[1:]
    dtype = env_params.reward.dtype

    def J(pi: Array) -> Array:
        return solvers.average_value(env_params, pi, gamma, weight)

    def corner(mdp: MDP) -> Array:
        return solvers.deterministic(solvers.optimal(mdp, gamma)[0], actions, dtype)

    imaginary = finite.average(env_params, weight)
    corners = jax.vmap(corner)(jax.tree.map(lambda x, mean: jnp.concatenate([x, mean[None]]), env_params, imaginary))
    if actions**states <= 20_000:
        corners = jnp.concatenate(
            [corners, _enumerate(env_params, gamma, weight, chunk=min(1024, actions**states)).pi[None]]
        )
    uniform = jnp.full((1, states, actions), 1.0 / actions, dtype)
    random_policies = jax.nn.softmax(2.0 * jax.random.normal(keys.of(key, "starts"), (starts, states, actions), dtype))
    begin = jnp.concatenate([random_policies, uniform, 0.9 * corners + 0.1 * uniform])

    def step(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        theta, value, size = carry
        pi = jax.nn.softmax(theta)
        slope = jax.grad(J)(pi)
        slope = slope - jnp.sum(pi * slope, axis=-1, keepdims=True)
        steepest = jnp.max(jnp.abs(slope), axis=-1, keepdims=True)
        scale = steepest + 1e-6 * jnp.max(steepest) + np.finfo(dtype).tiny
        proposal = jax.nn.log_softmax(theta + size * slope / scale)
        new_value = J(jax.nn.softmax(proposal))
        better = new_value >= value
        size = jnp.clip(jnp.where(better, 1.5 * size, 0.5 * size), 1e-12, 1e3)
        return (jnp.where(better, proposal, theta), jnp.where(better, new_value, value), size), None

    def ascend(pi: Array) -> Array:
        first = (jnp.log(pi), J(pi), jnp.ones((), dtype))
        (theta, _, _), _ = jax.lax.scan(step, first, None, length=steps)
        return jax.nn.softmax(theta)

    candidates = jnp.concatenate([jax.vmap(ascend)(begin), corners])
    values = jax.vmap(J)(candidates)
    top = jnp.argmax(values)
    return Best(candidates[top], values[top])


def best_local_history(env_params: MDP, gamma: float, weight: Array | None = None, *, limit: int = 2000) -> Array:
    """max J over local history-dependent policies, exactly: the optimum of `belief_mdp`."""
    mdp = belief_mdp(env_params, weight, limit=limit)
    return jnp.dot(mdp.start, solvers.optimal(mdp, gamma)[1])


def best_agent_aware(env_params: MDP, gamma: float, weight: Array | None = None) -> Array:
    """max J over agent-aware policies: each client plays its own optimum, since the rule may depend on c."""
    return solvers.weighted(
        jax.vmap(lambda mdp: jnp.dot(mdp.start, solvers.optimal(mdp, gamma)[1]))(env_params), weight
    )


def belief_mdp(env_params: MDP, weight: Array | None = None, *, limit: int = 2000) -> MDP:
    """The MDP of a client that does not know which one it is: states are pairs (s, posterior over clients).

    A shared rule fed with local histories (states and actions, not rewards) can do exactly what a policy of this MDP
    can, so its optimum is the maximum over that class. Finite only where few posteriors can be reached, as with
    deterministic kernels; otherwise `limit` pairs are exceeded and this is an error. Not traceable: pairs are
    enumerated.
    """
    kernel, reward, start = (np.asarray(x, np.float64) for x in env_params)
    clients = len(kernel)
    prior = np.full(clients, 1.0 / clients) if weight is None else np.asarray(weight, np.float64)
    pairs: dict[tuple[float, ...], int] = {}
    beliefs: list[tuple[int, np.ndarray]] = []

    def number(state: int, joint: np.ndarray) -> int:
        belief = np.round(joint / joint.sum(), 12)
        pair = (state, *belief.tolist())
        if pair not in pairs:
            if len(pairs) >= limit:
                raise ValueError(
                    f"more than limit={limit} pairs of state and posterior can be reached; this needs "
                    "finitely many, as deterministic kernels give; raise `limit`, or bound it by best_agent_aware"
                )
            pairs[pair] = len(beliefs)
            beliefs.append((state, belief))
        return pairs[pair]

    joint = prior[:, None] * start
    rho = {number(int(s), joint[:, s]): joint[:, s].sum() for s in np.flatnonzero(joint.sum(0))}
    edges: list[tuple[int, int, int, float]] = []
    rewards: list[np.ndarray] = []
    while len(rewards) < len(beliefs):
        source = len(rewards)
        state, belief = beliefs[source]
        rewards.append(belief @ reward[:, state])
        for action in range(kernel.shape[2]):
            joint = belief[:, None] * kernel[:, state, action]
            for successor in np.flatnonzero(joint.sum(0)):
                target = number(int(successor), joint[:, successor])
                edges.append((source, action, target, joint[:, successor].sum()))
    transitions = np.zeros((len(beliefs), kernel.shape[2], len(beliefs)))
    for source, action, target, probability in edges:
        transitions[source, action, target] += probability
    transitions /= transitions.sum(-1, keepdims=True)
    first = np.array([rho.get(i, 0.0) for i in range(len(beliefs))])
    dtype = env_params.kernel.dtype
    return MDP(jnp.asarray(transitions, dtype), jnp.asarray(np.array(rewards), dtype), jnp.asarray(first, dtype))
