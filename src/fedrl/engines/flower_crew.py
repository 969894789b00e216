"""The crew of the engine `flower`: every client's work is done by the organisation that it belongs to.

A message goes to each organisation with clients in the cohort; answers are put in the cohort's order, whenever they come.
Work is a pure function of what is sent, so an organisation that was lost and came back is simply asked again.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedrl.engines import client_work
from fedrl.engines.crew import KINDS, MOST_DEATHS
from fedrl.engines.driver import Answer, Asked, Crew, row
from fedrl.engines.flower_messages import about, arrays, clients_of, looked_at, named, tree
from fedrl.types import Exchange

LOOK = 0.2  # seconds between looks for answers
# Flower's codes for what asking again does not mend
CANNOT = {1: "cannot load fedrl", 2: "cannot start its part", 7: "does not accept the app"}


class Organisations:
    """The nodes of a grid: whose work each does, and the messages that are out."""

    def __init__(self, grid: Grid, patience: float):
        self.grid, self.patience = grid, patience
        self.serves: dict[int, list[range]] = {}  # node -> its clients
        self.known: set[int] = set()  # nodes that were asked who they are
        self.out: dict[str, tuple[int, list[int]]] = {}  # message -> node, slots (none: it is asked who it is)

    def collect(self, ids: list[int], content: Callable[[list[int]], RecordDict]) -> list[tuple[list[int], RecordDict]]:
        """The answers for the cohort `ids`, each with the slots of the cohort that it is of."""
        answers: list[tuple[list[int], RecordDict]] = []
        owed, losses = set(range(len(ids))), Counter[int]()
        alone = time.monotonic()  # since when nobody is to answer us
        while owed or any(slots for _, slots in self.out.values()):
            self._send(MessageType.TRAIN, self._at_home(owed, ids), content)
            owed -= {slot for _, slots in self.out.values() for slot in slots}
            if owed:
                self._look_round()
            if self.out:
                alone = time.monotonic()
            elif time.monotonic() - alone > self.patience:
                raise self._nobody(sorted(ids[slot] for slot in owed))
            for reply in self.grid.pull_messages(list(self.out)):
                node, slots = self.out.pop(reply.metadata.reply_to_message_id)
                if reply.has_error():
                    self._lose(node, reply.error)
                    owed.update(slots)
                    losses.update(slots)
                    _give_up(losses, ids, reply.error)
                elif slots:
                    answers.append((slots, _checked(reply.content, node)))
                else:
                    self._meet(node, reply.content)
            time.sleep(LOOK)
        return answers

    def _at_home(self, slots: set[int], ids: list[int]) -> dict[int, list[int]]:
        """Node -> those of the slots whose clients it serves."""
        homes = {slot: self._home(ids[slot]) for slot in sorted(slots)}
        return {node: [s for s in homes if homes[s] == node] for node in homes.values() if node is not None}

    def _look_round(self) -> None:
        """Ask those who are new here who they are."""
        fresh = [node for node in self.grid.get_node_ids() if node not in self.known]
        self.known.update(fresh)
        self._send(MessageType.QUERY, {node: [] for node in fresh}, lambda _: RecordDict())

    def _home(self, client: int) -> int | None:
        return next((node for node, parts in self.serves.items() if any(client in part for part in parts)), None)

    def _send(self, kind: str, to: dict[int, list[int]], content: Callable[[list[int]], RecordDict]) -> None:
        for node, slots in to.items():
            sent = next(iter(self.grid.push_messages([Message(content(slots), node, kind)])), None)
            if sent is None:  # Flower does not know the node any more
                self._forget(node)
            else:
                self.out[sent] = node, slots

    def _meet(self, node: int, content: RecordDict) -> None:
        words = content.config_records["node"]
        there = json.loads(str(words["about"]))
        differing = [
            f"{name} {there.get(name)} and not {mine}" for name, mine in about().items() if there.get(name) != mine
        ]
        if differing:
            raise ValueError(f"node {node} has {', '.join(differing)}; install the same versions on both sides")
        self.serves[node] = clients_of(words["clients"])

    def _lose(self, node: int, error: Error) -> None:
        """It may come back, under this or another number; then it is asked again."""
        if error.code in CANNOT:
            raise RuntimeError(f"node {node} {CANNOT[error.code]}: {error.reason}; its own log says more")
        self._forget(node)

    def _forget(self, node: int) -> None:
        self.serves.pop(node, None)
        self.known.discard(node)

    def _nobody(self, clients: list[int]) -> RuntimeError:
        there = [f"{p.start}-{p.stop - 1}" for parts in self.serves.values() for p in parts] or ["nobody"]
        return RuntimeError(
            f"for {self.patience:.0f} s no node served client {clients[0]} ({len(clients)} of the cohort have none; served "
            f"are {', '.join(there)}); start its SuperNode (again), then go on with --resume"
        )


def _give_up(losses: Counter[int], ids: list[int], error: Error) -> None:
    for slot, count in losses.items():
        if count >= MOST_DEATHS:
            raise RuntimeError(
                f"the node of client {ids[slot]} was lost {count} times in a row at this client's work "
                f"(the last time: {error.reason}); its own log may say why"
            )


def _checked(content: RecordDict, node: int) -> RecordDict:
    if "fault" in content.config_records:
        fault = content.config_records["fault"]
        raise KINDS.get(str(fault["kind"]), RuntimeError)(f"node {node}: {fault['error']!s}")
    return content


def crew(nodes: Organisations, words: dict[str, str]) -> Crew:
    """`words` name the recipe, its settings and the arm. One seed is asked for after the other."""

    def one_seed(exchange: Exchange, asked: Asked) -> Answer:
        seed, server, rows, cohort, key = asked
        ids = np.asarray(cohort.ids).tolist()
        common = arrays(
            looked_at(exchange.send, server) | named("cohort", cohort) | named("key", key) | named("seed", seed)
        )

        def content(slots: list[int]) -> RecordDict:
            memory = arrays(named("memory", jax.tree.map(lambda x: x[np.array(slots)], rows.memory)))
            which = ConfigRecord({**words, "exchange": exchange.name, "slots": slots})
            return RecordDict({"asked": which, "arrays": ArrayRecord(common | memory)})

        one = client_work.shapes(exchange, server, row(rows, 0), cohort, cohort.ids[0], key)
        order, stacks = [], []
        for slots, answer in nodes.collect(ids, content):
            like = jax.tree.map(lambda x, n=len(slots): jax.ShapeDtypeStruct((n, *x.shape), x.dtype), one)
            order += slots
            stacks.append(tree(answer.array_records["answer"], "done", like))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts)[np.argsort(order)], *stacks)

    def perform(exchange: Exchange, seeds: Sequence[Asked]) -> list[Answer]:
        return [one_seed(exchange, asked) for asked in seeds]

    return Crew(perform)
