"""A federation: one environment, and for each client the parameters of its own world."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys, trees
from fedrl.environments import finite
from fedrl.environments.protocol import Environment, Host
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort

HELD = 4096  # drawn worlds of up to this many clients are kept in memory; of more, drawn anew when a client is asked


class Profile(NamedTuple):
    """What is known of a client besides its world."""

    weight: Array  # q


class Clients(NamedTuple):
    """All clients of one seed."""

    key: Key  # where drawn worlds come from
    worlds: Tree  # a stack, or () where they are shared by all seeds or drawn on demand
    memory: Tree  # a stack
    scene: Tree = ()  # the world they meet in, where they do

    def keeping(self, asked: Cohort, memory: Tree) -> "Clients":
        """With the memories that those asked came back with; () says that theirs are as they were."""
        if not jax.tree.leaves(memory):
            return self
        return self._replace(memory=trees.put(self.memory, asked.ids, memory, asked.present))


@dataclass(frozen=True)
class Federation:
    """`worlds` is a stack of parameters with a leading client axis (the same for every seed), or a function
    `(key, client_id, *settings) -> world` (each seed draws its own; `clients` says how many).

    `settings` are numbers the drawn worlds depend on; federations that differ only in them share one compiled program.
    """

    environment: Environment | Host
    worlds: Tree | Callable[[Key, Array], Tree]
    clients: int | None = None
    weight: Array | None = None  # [count] q, need not be normalised; None: all alike
    settings: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if callable(self.worlds):
            if self.clients is None or self.clients < 1:
                raise ValueError(
                    f"worlds is a function, so say how many clients there are: clients=20, got {self.clients}"
                )
        else:
            sizes = {int(np.shape(x)[0]) for x in jax.tree.leaves(self.worlds)}
            if len(sizes) != 1 or self.clients not in (None, *sizes):
                raise ValueError(
                    f"worlds is a stack with leading axes {sorted(sizes)} and clients={self.clients}; "
                    "every array wants the same leading client axis"
                )
            if isinstance(self.worlds, finite.MDP):
                finite.check(self.worlds)
        if self.weight is not None and (
            np.shape(self.weight) != (self.count,) or not np.all(np.asarray(self.weight) > 0)
        ):
            raise ValueError(f"weight wants {self.count} positive numbers, one a client, got {np.shape(self.weight)}")

    @property
    def count(self) -> int:
        return self.clients or int(np.shape(jax.tree.leaves(self.worlds)[0])[0])

    @property
    def drawn(self) -> bool:
        return callable(self.worlds)

    def shared(self) -> Tree:
        """What every seed has in common, as an argument of the compiled program."""
        return jax.tree.map(jnp.asarray, self.settings if self.drawn else self.worlds)

    def enrol(self, shared: Tree, key: Key, algorithm: Algorithm) -> Clients:
        """The clients of the seed `key`, with what they start with."""
        ids = jnp.arange(self.count, dtype=jnp.int32)
        world_key = keys.of(key, "worlds")
        worlds = self.draw(shared, world_key, ids) if self.drawn and self.count <= HELD else ()
        kept = jax.eval_shape(algorithm.memory, jnp.int32(0), key)
        stack = jax.vmap(lambda i: algorithm.memory(i, key))(ids) if jax.tree.leaves(kept) else kept
        clients = Clients(world_key, worlds, stack)
        first = trees.take(self.rows(shared, clients, ids[:1]).world, jnp.int32(0))
        return clients._replace(scene=algorithm.scene(first, keys.of(key, "scene")))

    def draw(self, settings: Tree, world_key: Key, ids: Array) -> Tree:
        assert callable(self.worlds)
        world = self.worlds
        return jax.vmap(lambda i: world(world_key, i, *settings))(ids)

    def rows(self, shared: Tree, clients: Clients, ids: Array) -> Client:
        """The clients `ids`, as a stack."""
        if not self.drawn:
            worlds = trees.take(shared, ids)
        elif self.count <= HELD:
            worlds = trees.take(clients.worlds, ids)
        else:
            worlds = self.draw(shared, clients.key, ids)
        return Client(ids, worlds, Profile(self.weights(ids)), trees.take(clients.memory, ids))

    def example(self) -> Tree:
        """The world of client 0 in the federation of seed 0."""
        shared = self.shared()
        return trees.take(self.draw(shared, keys.of_seed(0), jnp.arange(1)) if self.drawn else shared, jnp.int32(0))

    def weights(self, ids: Array) -> Array:
        return jnp.ones(ids.shape) if self.weight is None else jnp.asarray(self.weight)[ids]
