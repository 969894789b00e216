"""A federation: one environment, and the parameters of it that each client has."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys, trees
from fedrl.arguments import checked_names
from fedrl.environments.checks import warn_of_sizes
from fedrl.environments.env_params import check_drawn_shapes, check_kind, refuse_uncalled
from fedrl.environments.protocol import AnyEnvironment, Environment, Host, stepwise
from fedrl.environments.tabular import finite
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Clients

HELD = 4096  # with more clients than this, drawn env_params are not kept in memory but drawn again when needed


class Profile(NamedTuple):
    """A client's data besides its environment."""

    weight: Array  # q


@checked_names
@dataclass(frozen=True)
class Federation:
    """`env_params` is a stack of parameters with a leading client axis (the same for every seed), or a function
    `(key, client_id, *settings) -> parameters` (each seed draws its own; `clients` says how many).

    `settings` are numbers that the drawn parameters depend on; federations that differ only in them share one compiled
    program.
    """

    environment: AnyEnvironment
    env_params: Tree | Callable[[Key, Array], Tree]
    clients: int | None = None
    weight: Array | None = None  # [count] q, need not be normalised; None: all alike
    settings: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.env_params, Environment | Host):
            raise TypeError(
                "Federation(): environment and env_params are swapped; write Federation(environment, env_params)"
            )
        if not hasattr(self.environment, "gamma"):
            raise TypeError(
                f"environment must be an environment such as finite.environment(states=4, actions=2, gamma=0.9), got "
                f'{self.environment!r:.60}; for a Gymnasium one write fedrl.gymnasium("CartPole-v1", clients=8)'
            )
        if not isinstance(self.clients, int | np.integer | None) or isinstance(self.clients, bool):
            raise TypeError(f"clients must be a whole number, got {self.clients!r:.60}; write clients=20")
        refuse_uncalled(self.env_params)
        if callable(self.env_params):
            if self.clients is None or self.clients < 1:
                raise ValueError(
                    f"env_params is a function, so clients must be at least 1, got {self.clients}; write clients=20"
                )
            self._check_drawn(self.env_params)
        else:
            self._check_stack()
        if self.weight is not None:
            object.__setattr__(self, "weight", finite.as_numbers("weight", self.weight))
            weight = np.asarray(self.weight)
            if weight.shape != (self.count,) or not np.all((weight > 0) & np.isfinite(weight)):
                got = weight.tolist() if weight.size <= 8 else f"an array of shape {weight.shape}"
                raise ValueError(
                    f"weight needs {self.count} positive finite numbers, one per client, got {got}; "
                    "fix it or leave it out for equal weights"
                )

    def _check_drawn(self, draw: Callable[..., Tree]) -> None:
        try:
            inspect.signature(draw).bind("key", "client_id", *self.settings)
        except TypeError as error:
            raise TypeError(
                f"env_params is called as env_params(key, client_id{', *settings' * bool(self.settings)}), but {error}; "
                "write a function with these parameters"
            ) from error
        env_params = jax.eval_shape(self.example)
        check_kind(self.environment, env_params)
        if isinstance(env_params, finite.MDP):
            check_drawn_shapes(env_params)
            finite.check_sizes(stepwise(self.environment), env_params)

    def _check_stack(self) -> None:
        """Parameters given as arrays. Finite MDPs may be given as lists, and also as a list of one MDP per client."""
        if isinstance(self.env_params, finite.MDP) or _are_mdps(self.env_params):
            stack = finite.check(finite.as_stack(self.env_params))
            check_kind(self.environment, stack)
            finite.check_sizes(stepwise(self.environment), stack)
            warn_of_sizes(np.asarray(stack.reward))
            object.__setattr__(self, "env_params", stack)
        elif self.env_params is not None:
            check_kind(self.environment, self.env_params)
        sizes = {np.shape(x)[0] if np.ndim(x) else 0 for x in jax.tree.leaves(self.env_params)}
        if not sizes:
            raise TypeError(
                "env_params must be arrays with a leading client axis, or a function (key, client_id) -> parameters, "
                f"got {self.env_params!r:.60}"
            )
        if len(sizes) != 1 or 0 in sizes or self.clients not in (None, *sizes):
            raise ValueError(
                f"env_params is a stack with leading axes {sorted(sizes)} and clients={self.clients}; "
                "every array needs the same leading client axis"
            )

    @property
    def count(self) -> int:
        return self.clients or int(np.shape(jax.tree.leaves(self.env_params)[0])[0])

    @property
    def drawn(self) -> bool:
        return callable(self.env_params)

    def shared(self) -> Tree:
        """The arrays that all seeds share, as an argument of the compiled program."""
        return jax.tree.map(jnp.asarray, self.settings if self.drawn else self.env_params)

    def enrol(self, shared: Tree, key: Key, algorithm: Algorithm) -> Clients:
        """The clients of the seed `key`, with their initial memory."""
        ids = jnp.arange(self.count, dtype=jnp.int32)
        params_key = keys.of(key, "worlds")
        env_params = self.draw(shared, params_key, ids) if self.drawn and self.count <= HELD else ()
        like = jax.eval_shape(algorithm.memory, jnp.int32(0), key)
        memory = jax.vmap(lambda i: algorithm.memory(i, key))(ids) if jax.tree.leaves(like) else like
        names = [exchange.name for exchange in (*algorithm.opening, *algorithm.exchanges)]
        clients = Clients(params_key, env_params, memory, {name: jnp.zeros(ids.shape, jnp.int32) for name in names})
        first = trees.take(self.rows(shared, clients, ids[:1]).env_params, jnp.int32(0))
        return clients._replace(shared_state=algorithm.init_shared_state(first, keys.of(key, "scene")))

    def draw(self, settings: Tree, params_key: Key, ids: Array) -> Tree:
        assert callable(self.env_params)
        draw = self.env_params
        return jax.vmap(lambda i: draw(params_key, i, *settings))(ids)

    def rows(self, shared: Tree, clients: Clients, ids: Array) -> Client:
        """The clients `ids`, as a stack."""
        if not self.drawn:
            env_params = trees.take(shared, ids)
        elif self.count <= HELD:
            env_params = trees.take(clients.env_params, ids)
        else:
            env_params = self.draw(shared, clients.key, ids)
        return Client(ids, env_params, Profile(self.weights(ids)), trees.take(clients.memory, ids))

    def example(self) -> Tree:
        """The parameters of client 0 with seed 0."""
        shared = self.shared()
        return trees.take(self.draw(shared, keys.of_seed(0), jnp.arange(1)) if self.drawn else shared, jnp.int32(0))

    def weights(self, ids: Array) -> Array:
        return jnp.ones(ids.shape) if self.weight is None else jnp.asarray(self.weight)[ids]


def _are_mdps(env_params: Tree) -> bool:
    return (
        isinstance(env_params, list | tuple) and bool(env_params) and all(isinstance(x, finite.MDP) for x in env_params)
    )


Method = Callable[[Federation], Algorithm]  # the first argument of `train`, which calls it with the federation
