"""What a contributor writes when all is well: a type checker that sees the installed package reports nothing."""

import jax.numpy as jnp
from jax import Array

from fedrl.algorithms.fedavg import fedavg
from fedrl.channels.plain import plain
from fedrl.keys import Key
from fedrl.learners.gradient_steps import Direction, gradient_learner
from fedrl.learners.ppo import ppo
from fedrl.selection.participation import uniform
from fedrl.trees import Tree
from fedrl.types import Channel, Client, Cohort, Exchange, LocalUpdate, Metrics, Mode


def start(message: Array, client: Client, key: Key) -> Array:
    return message


def sample(local: Array, client: Client, key: Key) -> int:
    return 0


def estimate(local: Array, trajectory: int, client: Client, key: Key) -> tuple[Array, Array]:
    return local, local


def apply(local: Array, direction: Array, client: Client) -> Array:
    return local + direction


def finish(local: Array, client: Client) -> tuple[Tree, Tree, Array]:
    return local, (), jnp.int32(0)


def choose(server: Array, key: Key) -> Cohort:
    return Cohort(jnp.arange(2), jnp.ones(2) / 2, jnp.ones(2, bool), jnp.zeros(2, jnp.int32))


def receive(server: Array, aggregate: Array, cohort: Cohort, key: Key) -> tuple[Array, Metrics]:
    return server + aggregate, {}


def learn(theta: Array, message: Tree, trajectory: int, client: Client, key: Key) -> tuple[Array, Array]:
    return theta, jnp.int32(1)


def act(theta: Array, message: Tree, client: Client, key: Key) -> int:
    return 0


update = LocalUpdate(start, sample, estimate, apply, finish, local_steps=2, mode=Mode.COMPILED)
exchange = Exchange(
    "train",
    choose=choose,
    send=lambda server, client_id: server,
    local=update,
    combine=lambda uploads, cohort: uploads[0],
    receive=receive,
    channel=plain,
)
channel = Channel(encode=lambda upload, cohort, slot, key: upload, decode=lambda aggregate, cohort, key: aggregate)
learner = gradient_learner(lambda environment, policy: Direction(act, learn), eta=0.1, local_steps=2)
method = fedavg(ppo(steps=2000), selection=uniform(4), server_step=1.0)
