"""A method as the server plays it: what clients do is only known by its shapes, and what they remember by a number.

In place of a client's memory the server keeps its *version*: the number of the exchange whose answer was last counted. The
site has the memory itself on its disk, under that number (`memory.py`). So what counts and what is remembered cannot differ,
whatever is lost on the way, and the server never sees it.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedrl.core import shapes
from fedrl.core.client import message, start
from fedrl.core.round import WorkRequest
from fedrl.evaluation import Evaluation
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.policies.filtered import Moments
from fedrl.trees import Tree, row, zeros_of
from fedrl.types import Algorithm, Channel, Client, Exchange, LocalUpdate
from fedrl.types.exchange import no_memory, theta_itself
from fedrl.types.local_update import Possible

ROUNDING = 1.001  # counts are floats


def at_server(method: Method) -> Method:
    """`method` without the clients' part."""

    def build(federation: Federation) -> Algorithm:
        algorithm = method(federation)
        return algorithm._replace(
            opening=tuple(_remote(e, algorithm, federation) for e in algorithm.opening),
            exchanges=tuple(_remote(e, algorithm, federation) for e in algorithm.exchanges),
            memory=first_version if remembers(algorithm) else no_memory,
            theta_of=theta_itself if _acts_with_memory(algorithm, federation) else algorithm.theta_of,
        )

    return build


def evaluation_at_server(evaluation: Evaluation, method: Method) -> Evaluation:
    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        whole = method(federation)
        return _remote(evaluation(whole, federation), whole, federation)

    return build


def first_version(client_id: Array, key: Key) -> Array:
    return jnp.zeros((), jnp.int32)


def remembers(algorithm: Algorithm) -> bool:
    """Whether clients keep anything between rounds."""
    like = jax.eval_shape(algorithm.memory, jnp.int32(0), jax.random.key(0))
    return bool(jax.tree.leaves(like))


def version_of(algorithm: Algorithm, exchange: str, round: int) -> int:
    """The version of memories after this exchange; it grows from exchange to exchange."""
    opening = [one.name for one in algorithm.opening]
    if exchange in opening:
        return 1 + opening.index(exchange)
    names = [one.name for one in algorithm.exchanges]
    return 1 + len(opening) + round * len(names) + (names.index(exchange) if exchange in names else len(names) - 1)


def _remote(exchange: Exchange, algorithm: Algorithm, federation: Federation) -> Exchange:
    request = shapes.of_request(exchange, algorithm, federation)
    upload, memory, env_steps, metrics = _result(exchange, request)
    changes = bool(jax.tree.leaves(memory))

    def finish(local: Any, client: Client) -> tuple[Tree, Tree, Array]:
        return zeros_of(upload), jnp.zeros((), jnp.int32) if changes else (), zeros_of(env_steps)

    local = exchange.local
    return exchange._replace(
        local=LocalUpdate(
            start=lambda message, client, key: (),
            sample=_elsewhere,
            estimate=_elsewhere,
            apply=_elsewhere,
            finish=finish,
            local_steps=local.local_steps,
            mode=local.mode,
            most_env_steps=local.most_env_steps,
            possible=local.possible or _possible(exchange, upload, request),
            moved=local.moved,
            metrics=lambda local, client: zeros_of(metrics),
        )
    )


def _result(exchange: Exchange, request: WorkRequest) -> tuple[Tree, Tree, Tree, Tree]:
    """Shapes of what a client uploads before its channel encodes it, of its new memory, steps and metrics."""

    def no_steps(request: WorkRequest) -> tuple[Tree, Tree, Tree, Tree]:
        client = row(request.clients, 0)
        local, _ = start(exchange.local, message(exchange, request.server, client), client, request.key)
        return (*exchange.local.finish(local, client), exchange.local.metrics(local, client))

    found: tuple[Tree, Tree, Tree, Tree] = jax.eval_shape(no_steps, request)
    return found


def _possible(exchange: Exchange, upload: Tree, request: WorkRequest) -> Possible | None:
    """Whether running statistics in an upload can be any: negative counts or squares would make NaN of what all clients see.

    If they go through a channel that changes them, the server does not know.
    """
    if not _statistics(upload) or _changes(exchange.channel, upload, request):
        return None
    most = exchange.local.local_steps * exchange.local.most_env_steps

    def possible(upload: Tree, client: Client) -> Array:
        fine = jnp.ones((), bool)
        for total, _, squares in _statistics(upload):
            fine &= (total >= 0) & jnp.all(squares >= 0)
            fine &= total <= most * ROUNDING if most else True
        return fine

    return possible


def _statistics(upload: Tree) -> list[Moments]:
    leaves = jax.tree.leaves(upload, is_leaf=lambda x: isinstance(x, Moments))
    return [x for x in leaves if isinstance(x, Moments)]


def _changes(channel: Channel, upload: Tree, request: WorkRequest) -> bool:
    """Whether the channel encodes anything."""
    encode = jax.make_jaxpr(channel.encode)
    traced = encode(upload, request.cohort, jnp.int32(0), request.key).jaxpr
    return bool(traced.outvars != traced.invars[: len(jax.tree.leaves(upload))])


def _acts_with_memory(algorithm: Algorithm, federation: Federation) -> bool:
    """Whether a client's policy depends on what it remembers: such a policy exists at its site only."""
    request = shapes.of_request(algorithm.training, algorithm, federation)
    client = jax.eval_shape(partial(row, i=0), request.clients)
    answer = jax.eval_shape(algorithm.answer, request.server)

    def acting(memory: Tree, answer: Tree, client: Client) -> Tree:
        return algorithm.theta_of(answer, client._replace(memory=memory))

    traced = jax.make_jaxpr(acting)(client.memory, answer, client).jaxpr
    ours = {id(variable) for variable in traced.invars[: len(jax.tree.leaves(client.memory))]}
    used = {id(v) for equation in traced.eqns for v in equation.invars} | {id(v) for v in traced.outvars}
    return bool(ours & used)


def _elsewhere(*_: Any) -> Any:
    raise RuntimeError("clients work at their sites")
