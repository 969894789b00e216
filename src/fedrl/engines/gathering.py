"""From what each client of a cohort came back with, or how it failed, to the stacks that `round.take_in` reads."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.admission import Heard
from fedrl.environments.errors import WorldError
from fedrl.faults import ClientFault, Faults, Why
from fedrl.keys import Key
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Exchange, Server


class Asked(NamedTuple):
    """What one seed's cohort is asked to do in an exchange. Clients that are not present are not asked."""

    seed: Key  # of the run; worlds are drawn from it
    server: Server
    rows: Client  # a stack, as the cohort
    cohort: Cohort
    key: Key  # of the exchange

    def slots(self) -> list[int]:
        """The places in the cohort of those who are asked."""
        return np.flatnonzero(np.asarray(self.cohort.present)).tolist()


Answers = dict[int, Tree | ClientFault]  # by slot: upload, memory and environment steps, or how the client failed
Tell = Callable[[int, str], None]  # (client, how it failed)


def gather(
    exchange: Exchange, asked: Asked, answers: Answers, like: Tree, scene: Tree, faults: Faults, tell: Tell
) -> Heard:
    """The stacks of a cohort. `like` has the shapes of one answer; zeros stand for those who gave none."""
    ids = np.asarray(asked.cohort.ids).tolist()
    why = np.zeros(len(ids), np.int32)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    done = []
    for slot, client in enumerate(ids):
        found = answers.get(slot, nothing)
        if not isinstance(found, ClientFault):
            found = _fitting(exchange, client, found, like)
        if isinstance(found, ClientFault):
            if not faults.leaves_out:
                raise found.error
            tell(client, str(found.error))
            why[slot], found = found.why, nothing
        done.append(found)
    uploads, memory, env_steps = jax.tree.map(_stack, *done)
    return Heard(asked.rows, uploads, memory, env_steps, scene, jnp.asarray(why))


def raised(error: Exception, client: int, exchange: str) -> ClientFault:
    """The fault of a client in whose work `error` came up."""
    if not isinstance(error, WorldError):  # these name the client themselves
        error.add_note(f"client {client}, exchange {exchange!r}")
    return ClientFault(Why.RAISED, error)


def _fitting(exchange: Exchange, client: int, found: Tree, like: Tree) -> Tree | ClientFault:
    """`found` if its arrays are of the right shapes and dtypes."""
    came, wanted = str(jax.tree.structure(found)), str(jax.tree.structure(like))
    if came != wanted:
        return _misshapen(exchange, client, came, wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(like), strict=True):
        if np.shape(one) != other.shape or one.dtype != other.dtype:
            return _misshapen(
                exchange, client, f"{one.dtype}{list(np.shape(one))}", f"{other.dtype}{list(other.shape)}"
            )
    return found


def _misshapen(exchange: Exchange, client: int, came: str, wanted: str) -> ClientFault:
    text = f"client {client}, exchange {exchange.name!r}: sent {came}, expected {wanted}; it must run the server's code"
    return ClientFault(Why.SHAPE, WorldError(text))


def _stack(*leaves: Any) -> Any:
    return jnp.stack(leaves) if any(isinstance(x, jax.Array) for x in leaves) else np.stack(leaves)


def of_seeds(perform: Callable[[Exchange, Asked], Answers]) -> Callable[[Exchange, Sequence[Asked]], list[Answers]]:
    """For crews that take one seed after the other."""
    return lambda exchange, seeds: [perform(exchange, asked) for asked in seeds]
