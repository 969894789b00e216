"""Random MDPs of `wang2024` (§7, E.1), generated as in Jin et al. 2022: P_i = kappa * own + (1 - kappa) * nominal.

Rewards are uniform on [0, 1] and shared by all clients (`conflicting` changes that), the start is uniform. Each function
takes the settings and returns `draw(key, client_id) -> MDP`, a pure function of both, so a population is
`vmap(draw, (None, 0))(key, ids)`.

Unlike the paper, which says only "element-wisely Bernoulli distributed", there are three generators here: `dense` fits
its main text, `orthogonal` and `sparse` are the two Bernoulli ones of Jin et al. With `nominal_first=True` client 0
is the nominal MDP itself, as in Jin et al.'s experiments; by default it is perturbed like every other. `kappa` may be
traced, so a grid of it is one program.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.arguments import at_least, checked_only
from fedrl.environments.tabular.finite import MDP

DrawMDP = Callable[[keys.Key, int | Array], MDP]
Mask = Callable[[keys.Key, tuple[int, ...]], Array]


@checked_only
def dense(states: int = 5, actions: int = 5, kappa: float | Array = 0.0, *, nominal_first: bool = False) -> DrawMDP:
    """Every entry of every kernel uniform, rows normalised. kappa = 0: all clients alike."""
    return _mixture(_everywhere, _everywhere, states, actions, kappa, nominal_first)


@checked_only
def orthogonal(
    states: int = 5, actions: int = 5, kappa: float | Array = 0.0, *, nominal_first: bool = False
) -> DrawMDP:
    """The nominal kernel lives on a Bernoulli(1/2) mask, all the others on its complement.

    At kappa = 1 a client's rows therefore share no successor with the nominal ones. In a row whose mask is all
    zeros or all ones, one uniformly drawn entry is flipped.
    """
    if states < 2:
        raise ValueError(f"orthogonal needs states >= 2 so that a mask has a complement, got {states}; use dense")

    def mask(key: keys.Key, shape: tuple[int, ...]) -> Array:
        bits = jax.random.bernoulli(keys.of(key, "mask"), 0.5, shape)
        lonely = jnp.all(bits == bits[..., :1], axis=-1, keepdims=True)
        return bits ^ (lonely & _one_entry(keys.of(key, "mask", "repair"), shape))

    return _mixture(mask, lambda key, shape: ~mask(key, shape), states, actions, kappa, nominal_first)


@checked_only
def sparse(
    states: int = 5, actions: int = 5, kappa: float | Array = 1.0, *, density: float = 0.2, nominal_first: bool = False
) -> DrawMDP:
    """Each kernel has its own Bernoulli(density) mask. kappa = 1, the default: no mixing, as in Jin et al.

    A row whose mask is empty gets one uniformly drawn entry.
    """
    _fraction("density", density)

    def mask(key: keys.Key, shape: tuple[int, ...]) -> Array:
        bits = jax.random.bernoulli(keys.of(key, "mask"), density, shape)
        empty = ~jnp.any(bits, axis=-1, keepdims=True)
        return bits | (empty & _one_entry(keys.of(key, "mask", "repair"), shape))

    return _mixture(mask, mask, states, actions, kappa, nominal_first, private=True)


@checked_only
def conflicting(draw: DrawMDP, conflict: float | Array) -> DrawMDP:
    """The MDPs of `draw` with rewards r + conflict * z for even clients and r - conflict * z for odd ones.

    z is uniform on [-1, 1], one number for each state and action, the same for all clients. An even number of clients earns
    r on average, so with equal kernels the value of every common policy is the same for all `conflict`; what each client
    would do alone is not. conflict = 0 is `draw`.
    """

    def draw_conflicting(key: keys.Key, client_id: int | Array) -> MDP:
        mdp = draw(key, client_id)
        z = jax.random.uniform(keys.of(key, "conflict"), (mdp.reward.size,), mdp.reward.dtype, minval=-1.0, maxval=1.0)
        shift = jnp.asarray(conflict, mdp.reward.dtype) * z.reshape(mdp.reward.shape)
        return mdp._replace(reward=mdp.reward + jnp.where(jnp.asarray(client_id) % 2 == 0, shift, -shift))

    return draw_conflicting


def _mixture(
    nominal_mask: Mask,
    own_mask: Mask,
    states: int,
    actions: int,
    kappa: float | Array,
    nominal_first: bool,
    private: bool = False,
) -> DrawMDP:
    """Masks see the shared key, unless `private`: then a client's own mask is drawn from the client's key."""
    _fraction("kappa", kappa)
    at_least(1, states=states, actions=actions)
    shape = (states, actions, states)

    def draw(key: keys.Key, client_id: int | Array) -> MDP:
        client = keys.of(key, "client", client_id)
        nominal = masked_rows(keys.of(key, "nominal"), nominal_mask(key, shape))
        own = masked_rows(client, own_mask(client if private else key, shape))
        share = jnp.where(nominal_first & (jnp.asarray(client_id) == 0), 0.0, kappa).astype(own.dtype)
        reward = jax.random.uniform(keys.of(key, "reward"), (states * actions,)).reshape(states, actions)
        return MDP(share * own + (1.0 - share) * nominal, reward, jnp.full(states, 1.0 / states))

    return draw


def masked_rows(key: keys.Key, mask: Array) -> Array:
    """Uniform weights on (0, 1] where `mask` holds, normalised over the last axis."""
    weight = jnp.where(mask, 1.0 - jax.random.uniform(key, (mask.size,)).reshape(mask.shape), 0.0)
    return weight / jnp.sum(weight, axis=-1, keepdims=True)


def _everywhere(key: keys.Key, shape: tuple[int, ...]) -> Array:
    return jnp.ones(shape, bool)


def _one_entry(key: keys.Key, shape: tuple[int, ...]) -> Array:
    """True at one uniformly drawn place of each row."""
    return jax.nn.one_hot(jax.random.randint(key, shape[:-1], 0, shape[-1]), shape[-1], dtype=bool)


def _fraction(name: str, number: float | Array) -> None:
    """Check a number that is known now; a traced one was checked by the caller."""
    if isinstance(number, jax.core.Tracer):
        return
    value = np.asarray(number)
    if not np.all((value >= 0.0) & (value <= 1.0)):
        raise ValueError(f"{name} must lie in [0, 1], got {number}; it is a share, so try e.g. {name}=0.5")
