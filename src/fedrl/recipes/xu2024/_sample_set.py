"""The expected gradient norm of Table IV: the mean of ||grad F(theta_k)||^2 over training, on a fixed sample set (Eq. 10).

"Samples that are uniformly collected during the model's training process when tau = 1": at every test of that arm, in its
first seed, the mini-batch that its agents collect next. F (Eq. 9) is the loss whose gradient the actor learns from on them:
PPO's with the ratio at one, advantages by the critic of theta_k; the paper does not say which terms it took. "Calculated
whenever theta_k is updated": here at every test, and tests are spread evenly.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys, trees
from fedrl.core.round import State
from fedrl.experiments.recipe import Outcome
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.learners.filtering import Theta
from fedrl.learners.iteration import Memory
from fedrl.policies.filtered import Filters
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024._figure_eight import Config
from fedrl.records import snapshots
from fedrl.theory.utility import TABLE_IV
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Exchange, Learner, Server, Trajectory


def parameters(algorithm: Algorithm, state: State) -> Tree:
    """The snapshot of every arm: the average parameters of each seed."""
    return {"theta": jax.vmap(algorithm.answer)(state.server)}


def with_samples(federation: Federation, algorithm: Algorithm, state: State) -> Tree:
    """The snapshot of the arm with tau = 1: also the next trajectories of its agents (first seed) and their filters."""
    server, clients = (trees.take(x, jnp.int32(0)) for x in (state.server, state.clients))
    everyone = federation.rows(federation.shared(), clients, jnp.arange(federation.count, dtype=jnp.int32))
    key = keys.of(state.key[0], "sample set", server.round)

    trajectory = _collecting(algorithm.exchanges[-1])(server, everyone, clients.shared_state, key)
    return parameters(algorithm, state) | {"seen": trajectory, "filters": everyone.memory.filters}


@lru_cache(maxsize=1)
def _collecting(train: Exchange) -> Callable[[Server, Client, Tree, Key], Trajectory]:
    @jax.jit
    def collect(server: Server, everyone: Client, shared_state: Tree, key: Key) -> Trajectory:
        local = jax.vmap(lambda client: train.local.start(train.send(server, client.id), client, key))(everyone)
        trajectory: Trajectory = train.local.shared_sample(local, everyone, shared_state, key)[0]
        return trajectory

    return collect


def norms(config: Config, arms: dict[str, Outcome], sampled: str) -> dict[str, np.ndarray]:
    """||grad F||^2 of each arm [tests, seeds], from its snapshots; those of the arm `sampled` have the samples too."""
    federation = eight.federation(config)
    learner = eight.learner(config, remember=1)(federation.environment)
    like = _like(config, federation, arms[sampled].returns.shape[0])
    rows = [tree for _, tree in snapshots.load(arms[sampled].folder, like)]
    trajectory, own = (
        jax.tree.map(lambda *x: jnp.concatenate(x), *(row[name] for row in rows)) for name in ("seen", "filters")
    )
    loss = partial(_loss, learner, trajectory, own)
    size = jax.jit(lambda thetas: jax.lax.map(lambda theta: trees.squared_norm(jax.grad(loss)(theta).actor), thetas))
    found = {}
    for name, outcome in arms.items():
        saved = snapshots.load(outcome.folder, like if name == sampled else {"theta": like["theta"]})
        found[name] = np.stack([np.asarray(size(tree["theta"]), np.float64) for _, tree in saved])
    return found


def _like(config: Config, federation: Federation, seeds: int) -> Tree:
    """The snapshot of the arm with the samples, as zeros."""
    algorithm = eight.variant(config, TABLE_IV[0])(federation)

    def init(key: Key) -> State:
        return State(key, algorithm.init(key), federation.enrol(federation.shared(), key, algorithm))

    seeded = jnp.stack([keys.of_seed(seed) for seed in range(seeds)])
    shapes = jax.eval_shape(lambda: with_samples(federation, algorithm, jax.vmap(init)(seeded)))
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def _loss(learner: Learner, trajectory: Trajectory, own: Filters, theta: Theta) -> jax.Array:
    """F: the mean over all mini-batches of the learner's loss on each."""
    on = learner.loss
    assert on

    def one(row: tuple[Trajectory, Filters]) -> jax.Array:
        return on(theta, Client(jnp.int32(0), (), (), Memory(row[1], (), (), row[0])))

    return jnp.mean(jax.vmap(one)((trajectory, own)))
