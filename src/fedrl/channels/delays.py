"""Slow links: what goes up arrives some rounds later, and what comes down is some rounds old (Xu et al. 2024, Fig. 4)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.arguments import checked
from fedrl.core import shapes
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Metrics, Server


class Delayed(NamedTuple):
    """The server, and what is on its way."""

    server: Server
    past: Tree  # stack of the servers of the last rounds, newest first: those that messages may still use
    coming: Tree  # stack of the aggregates of the last `up` rounds, newest first
    round: Array


@checked
def delayed(method: Method, *, up: int = 0, down: int = 0, every: int = 1) -> Method:
    """`method`, whose training has links with these delays in rounds; clients get a new message only every `every` rounds.

    In round r clients work from the server of round r - down (or the first one); with `every` > 1, of the last multiple of
    `every` up to r, minus down. Their uploads update the server in round r + up; until the first ones arrive it stays as it
    is. up = down = 2 epochs is FIRL_syn, and with every = 2 epochs FIRL_asy. Without any delay this is `method` itself.
    """
    if up < 0 or down < 0 or every < 1:
        raise ValueError(f"delays need up >= 0, down >= 0 and every >= 1 rounds, got {up}, {down} and {every}")
    if up == 0 and down == 0 and every == 1:
        return method
    oldest = down + every - 1

    def build(federation: Federation) -> Algorithm:
        algorithm = method(federation)
        train = algorithm.training
        if len(algorithm.exchanges) > 1:
            raise ValueError(
                "delays are for methods with one exchange a round, this one has more: its reports would come late, too"
            )

        def init(key: Key) -> Delayed:
            server = algorithm.init(key)
            aggregate = shapes.of_aggregate(train, shapes.of_request(train, algorithm, federation))
            empty = jax.tree.map(lambda x: jnp.zeros((up, *x.shape), x.dtype), aggregate)
            past = jax.tree.map(lambda x: jnp.stack([x] * (oldest + 1)), server)
            return Delayed(server, past, empty, jnp.zeros((), jnp.int32))

        def send(state: Delayed, client_id: Array) -> Tree:
            age = down + state.round % every
            return train.send(jax.tree.map(lambda x: x[age], state.past), client_id)

        def receive(state: Delayed, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[Delayed, Metrics]:
            queue = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old]), aggregate, state.coming)
            due_aggregate = jax.tree.map(lambda x: x[up], queue)
            server_after, metrics = train.receive(state.server, due_aggregate, cohort, key)
            server = trees.where(state.round >= up, server_after, state.server)
            past = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old[:-1]]), server, state.past)
            return Delayed(server, past, jax.tree.map(lambda x: x[:up], queue), state.round + 1), metrics

        slow = train._replace(choose=lambda state, key: train.choose(state.server, key), send=send, receive=receive)
        return algorithm.with_training(slow)._replace(
            init=init,
            answer=lambda state: algorithm.answer(state.server),
            opening=tuple(_on_wrapped_server(e) for e in algorithm.opening),
        )

    return build


def _on_wrapped_server(exchange: Any) -> Any:
    """An opening exchange, which is not delayed, on the wrapped server."""

    def receive(state: Delayed, aggregate: Tree, cohort: Cohort, key: Key) -> tuple[Delayed, Metrics]:
        server, metrics = exchange.receive(state.server, aggregate, cohort, key)
        past = jax.tree.map(lambda new, old: jnp.broadcast_to(new[None], old.shape), server, state.past)
        return state._replace(server=server, past=past), metrics

    return exchange._replace(
        choose=lambda state, key: exchange.choose(state.server, key),
        send=lambda state, client_id: exchange.send(state.server, client_id),
        receive=receive,
    )
