"""The Synthetic task of `labbi2025`, App. H: P_c = (1 - epsilon) P_com + epsilon P_c_ind, rows flat Dirichlet."""

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import keys
from fedrl.arguments import at_least, checked_only
from fedrl.environments.tabular.finite import MDP
from fedrl.environments.tabular.random_mdp import DrawMDP

GAMMA = 0.99  # the published code's; App. H names a discount for GridWorld only


@checked_only
def synthetic(epsilon: float, states: int = 5, actions: int = 4, *, kinds: int | None = None) -> DrawMDP:
    """Reward uniform on [0, 1] and shared, start uniform. epsilon = 0: all clients alike; epsilon_P <= 2 epsilon.

    `kinds=None`: one individual kernel per client, as in the paper. `kinds=2`: client c has kernel c % 2, as the
    published code has it.
    """
    share = mixing(epsilon)
    at_least(1, states=states, actions=actions)
    check_kinds(kinds)

    def draw(key: keys.Key, client_id: int | Array) -> MDP:
        own = keys.of(key, "individual", kind(client_id, kinds))
        shape = (states, actions, states)
        kernel = (1.0 - share) * simplex_rows(keys.of(key, "common"), shape) + share * simplex_rows(own, shape)
        reward = jax.random.uniform(keys.of(key, "reward"), (states, actions))
        return MDP(kernel, reward, jnp.full(states, 1.0 / states))

    return draw


@checked_only
def highly_heterogeneous(states: int = 5, actions: int = 4, *, epsilon: float = 0.0) -> DrawMDP:
    """`synthetic` plus two absorbing states that pay 1, entered from state 0 by opposite actions for even and odd ids.

    States `states` and `states + 1` are the absorbing ones. In state 0, even clients reach the first of them by the
    first half of the actions and stay by the second half; odd clients stay by the first half and reach the second
    absorbing state by the other. Start uniform over all states.

    Where the paper is silent: both gates are the same base state (it asks for "opposing actions, similar to Figure 4"),
    the other base states keep the kernel of `synthetic(epsilon)`, and base rewards stay uniform on [0, 1].
    """
    if actions < 2 or actions % 2:
        raise ValueError(f"half of the actions lead and half stay, so their number must be even, got {actions}; try 4")
    base = synthetic(epsilon, states, actions)

    def draw(key: keys.Key, client_id: int | Array) -> MDP:
        inner = base(key, client_id)
        return with_gate(inner, gate=0, client_id=client_id)

    return draw


def with_gate(inner: MDP, gate: int, client_id: int | Array) -> MDP:
    """`inner` plus two absorbing states that pay 1, one of them reachable from `gate`: which and how, by parity."""
    states, actions = inner.reward.shape
    dtype = inner.kernel.dtype
    odd = jnp.asarray(client_id) % 2
    first_half = jnp.arange(actions) < actions // 2
    leads = jnp.where(first_half, odd == 0, odd == 1)
    target = jnp.where(leads, states + odd, gate)
    kernel = jnp.zeros((states + 2, actions, states + 2), dtype).at[:states, :, :states].set(inner.kernel)
    kernel = kernel.at[gate].set(jax.nn.one_hot(target, states + 2, dtype=dtype))
    for absorbing in (states, states + 1):
        kernel = kernel.at[absorbing, :, absorbing].set(1.0)
    reward = jnp.ones((states + 2, actions), dtype).at[:states].set(inner.reward)
    return MDP(kernel, reward, jnp.full(states + 2, 1.0 / (states + 2), dtype))


def simplex_rows(key: keys.Key, shape: tuple[int, ...]) -> Array:
    """Uniform draws from the simplex along the last axis: normalised exponentials, i.e. Dirichlet(1)."""
    weight = jax.random.exponential(key, shape)
    return weight / jnp.sum(weight, axis=-1, keepdims=True)


def kind(client_id: int | Array, kinds: int | None) -> Array:
    """Which individual kernel client `client_id` has."""
    return jnp.asarray(client_id) if kinds is None else jnp.asarray(client_id) % kinds


def check_kinds(kinds: int | None) -> None:
    if kinds is not None and kinds < 1:
        raise ValueError(f"kinds must be None or at least 1, got {kinds}; None gives each client its own kernel")


def mixing(epsilon: float) -> float:
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(
            f"epsilon must lie in [0, 1], got {epsilon}; it is the share of the individual kernel, e.g. 0.3"
        )
    return epsilon
