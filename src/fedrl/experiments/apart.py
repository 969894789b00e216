"""Clients that go on apart: each continues a finished run's method with a server of its own, and nothing is exchanged.

Unlike `algorithms.alone`, which adds a client's displacement to its parameters, the method's own server rule receives it
(a server's step size, momentum), as in a federation of one client.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.algorithms.federated import federated
from fedrl.algorithms.server_rules import ServerState, no_server
from fedrl.core.round import State
from fedrl.environments.protocol import Environment, Host
from fedrl.experiments.recipe import RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.records.tensors import to_bytes
from fedrl.selection.participation import cohort
from fedrl.trees import Tree
from fedrl.types import Algorithm, BuildLearner, Client, Exchange, Learner, LocalUpdate

INSTEAD = "personalise an arm that averages what all clients learn, such as FedAvg or PAvg"


class Own(NamedTuple):
    """What a client keeps: the state of its own server, and what the learner keeps."""

    server: Tree
    memory: Tree


Begin = Callable[[Array, Key], Own]  # (the client's number in the run, key of the seed)


def apart(method: Method, federation: Federation, clients: np.ndarray, state: State | None, first_seed: int) -> Method:
    """`method` for each of `clients` of the `federation` by itself, in `subset(federation, clients)`.

    They begin with what the run's last `state` holds, its round counted from 0 again, or, with None, from scratch.
    """
    algorithm = method(federation)
    check(algorithm, federation)
    begin = _from_scratch(algorithm) if state is None else _from_state(algorithm, state, first_seed)
    where = federation, jnp.asarray(clients, jnp.int32)

    def learner(environment: Any) -> Learner:
        def inside(client: Client) -> Client:
            return client._replace(id=where[1][client.id], memory=client.memory.memory)

        def theta(nothing: Tree, client: Client) -> Tree:
            return algorithm.theta_of(algorithm.answer(client.memory.server), inside(client))

        opening = () if state is not None else algorithm.opening  # has been played where there is a state
        return Learner(
            algorithm.policy,
            init=lambda key: (),
            local=_at_home(algorithm.training, federation, inside),
            memory=lambda place, key: begin(where[1][place], key),
            acts_with=theta,
            opening=tuple(_at_home(exchange, federation, inside) for exchange in opening),
        )

    return federated(no_server, _identified(learner, method, clients, state))


def _identified(learner: BuildLearner, method: Method, clients: np.ndarray, state: State | None) -> BuildLearner:
    """With what `run.toml` says of it."""
    start = "scratch" if state is None else hashlib.sha256(to_bytes(state.server)).hexdigest()[:16]
    vars(learner).update(arguments=("apart", {"method": method, "clients": clients.tolist(), "start": start}))
    return learner


def check(algorithm: Algorithm, federation: Federation) -> None:
    """Raise where clients cannot go on apart."""
    environment = federation.environment
    if not isinstance(environment, Environment | Host):
        raise RecipeError(f"language agents are not personalised yet; {INSTEAD}")
    if environment.agents:
        raise RecipeError(f"these clients share one environment, so none can train apart; {INSTEAD}")
    if len(algorithm.exchanges) > 1 or algorithm.training.mix is not None:
        more = [exchange.name for exchange in algorithm.exchanges if exchange is not algorithm.training]
        why = f"ask clients before they train ({', '.join(more)})" if more else "talk to their neighbours"
        raise RecipeError(f"the rounds of this method {why}, which one client cannot do alone; {INSTEAD}")
    server = jax.eval_shape(algorithm.init, jax.random.key(0))
    if not isinstance(server, ServerState) or not jax.tree.leaves(server.theta):
        raise RecipeError(f"this method learns no common policy to begin with; {INSTEAD}")
    _check_receive(algorithm, federation, server)


def _check_receive(algorithm: Algorithm, federation: Federation, server: ServerState) -> None:
    """Whether the server can receive one client alone: a selection may expect as many as it chooses."""
    from fedrl.core import shapes

    train = algorithm.training
    upload = shapes.of_work(train, shapes.of_request(train, algorithm, federation)).upload

    def receive(server: Any, upload: Tree) -> Any:
        return _receive_one(train, federation, server, upload, jnp.int32(0))

    try:
        jax.eval_shape(receive, server, upload)
    except (TypeError, ValueError) as error:
        raise RecipeError(
            f"the selection of this arm cannot work with one client ({str(error).splitlines()[0]}); {INSTEAD}"
        ) from None


def _receive_one(train: Exchange, federation: Federation, server: Any, upload: Tree, client: Array) -> Any:
    """The server after the upload of one client; no channel, since nothing travels."""
    alone = cohort(federation, client[None])
    key = keys.of(keys.of_seed(0), "apart", client, server.round)
    aggregate = train.combine(jax.tree.map(lambda x: x[None], upload), alone)
    return train.receive(server, aggregate, alone, key)[0]


def _at_home(exchange: Exchange, federation: Federation, inside: Callable[[Client], Client]) -> LocalUpdate:
    """The client's side of `exchange` with the server's side done at once, in the client's memory."""
    local = exchange.local
    steps_of = local.steps_of

    def start(message: Any, client: Client, key: Key) -> Any:
        known = inside(client)
        return local.start(exchange.send(client.memory.server, known.id), known, key)

    def finish(state: Any, client: Client) -> tuple[Tree, Own, Array]:
        known = inside(client)
        upload, kept, env_steps = local.finish(state, known)
        server = _receive_one(exchange, federation, client.memory.server, upload, known.id)
        return (), Own(server, kept if jax.tree.leaves(kept) else known.memory), env_steps

    return local._replace(
        start=start,
        sample=lambda state, client, key: local.own_sample(state, inside(client), key),
        estimate=lambda state, trajectory, client, key: local.estimate(state, trajectory, inside(client), key),
        apply=lambda state, direction, client: local.apply(state, direction, inside(client)),
        finish=finish,
        steps_of=(lambda client, key: steps_of(inside(client), key)) if steps_of else None,
        possible=None,
        moved=None,
        metrics=lambda state, client: local.metrics(state, inside(client)),
    )


def _from_scratch(algorithm: Algorithm) -> Begin:
    return lambda client, key: Own(algorithm.init(keys.of(key, "init")), algorithm.memory(client, key))


def _from_state(algorithm: Algorithm, state: State, first_seed: int) -> Begin:
    count = len(jax.tree.leaves(state.server)[0])
    seeds = jax.random.key_data(jax.vmap(jax.random.key)(jnp.arange(first_seed, first_seed + count, dtype=jnp.uint32)))
    server = state.server._replace(round=jnp.zeros_like(state.server.round))

    def begin(client: Array, key: Key) -> Own:
        data = jax.random.key_data(key)
        at = jnp.argmax(jnp.all(seeds == jnp.broadcast_to(data[None], seeds.shape), axis=1))
        memory = jax.tree.map(lambda x: x[at, client], state.clients.memory)
        return Own(jax.tree.map(lambda x: x[at], server), memory)

    return begin


def subset(federation: Federation, clients: np.ndarray) -> Federation:
    """The federation of `clients` alone, in their order; each keeps the environment it had."""
    environment: Any = federation.environment
    if isinstance(environment, Host):
        opens = environment.open
        environment = environment._replace(
            open=lambda place, env_params, copies: opens(int(clients[place]), env_params, copies)
        )
    if not federation.drawn:
        chosen = jax.tree.map(lambda x: np.asarray(x)[clients], federation.env_params)
        return Federation(environment, chosen)
    draw, numbers = federation.env_params, jnp.asarray(clients, jnp.int32)
    assert callable(draw)

    def drawn(key: Key, place: Array, *settings: Any) -> Tree:
        return draw(key, numbers[place], *settings)

    return Federation(environment, drawn, clients=len(clients), settings=federation.settings)
