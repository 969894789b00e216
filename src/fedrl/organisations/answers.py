"""What comes back from a site may be anything: it becomes results that fit, or faults, and is never read otherwise.

An answer names the run and the token of its question. Its arrays are exactly those that were asked for, with the expected
dtypes, shapes and lengths; uploads are finite, and no number is beyond the limit. Norms, counts of steps and what can be
known to be impossible are checked afterwards, as in every engine (`core/admission.py`).
"""

import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import ArrayRecord, RecordDict

from fedrl.core.client import WorkResult
from fedrl.engines import leaves
from fedrl.engines.client_results import ClientResults
from fedrl.engines.leaves import Unexpected
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode
from fedrl.trees import Tree, zeros_of

LONGEST = 500  # characters of a sentence that a site sends
MOST_WORDS = 4 << 20  # bytes of a record without arrays: Flower cuts only arrays into pieces, and the proxy takes 8 MB
CODES = {"raised": FaultCode.RAISED, "memory": FaultCode.MEMORY}


class Refused(Unexpected):
    """The site says that it takes no part."""


class Asked(NamedTuple):
    """One exchange's work that was asked of a site."""

    exchange: str
    address: tuple[str | int, ...]
    slots: list[int]
    clients: list[int]
    counted: list[int]  # versions of the clients' memories
    version: int  # of their memories afterwards
    expected: WorkResult  # the shapes of one client's result, its memory a version

    def plain(self) -> dict[str, Any]:
        return {
            name: list(x) if isinstance(x, tuple) else x for name, x in self._asdict().items() if name != "expected"
        }


class Question(NamedTuple):
    """One message to a site."""

    site: str
    run: str
    token: str
    items: tuple[Asked, ...] = ()  # none: a question who it is


def of_work(content: RecordDict, question: Question, largest: float) -> list[ClientResults]:
    """By item, the result or fault of each slot. `largest` is the largest number that may come. Never raises."""
    try:
        return _read(content, question, largest)
    except Refused as error:
        return everyone_failed(question, FaultCode.REFUSED, str(error))
    except Exception as error:  # whatever a stranger may have sent
        return everyone_failed(question, FaultCode.ANSWER, reason(error, "answer"))


def _read(content: RecordDict, question: Question, largest: float) -> list[ClientResults]:
    check_belongs(content, question)
    failures = _failures(content, question)
    _check_records(content, question, failures)
    results: list[ClientResults] = []
    for place, item in enumerate(question.items):
        results.append({})
        for slot, client in zip(item.slots, item.clients, strict=True):
            if (place, client) in failures:
                results[place][slot] = failures[place, client]
            else:
                record = content.array_records[f"{place}/{client}"]
                results[place][slot] = _result(record, f"site {question.site}: client {client}", item, largest)
    return results


def check_belongs(content: RecordDict, question: Question) -> dict[str, Any]:
    """The words of an answer, if it is one to this question."""
    words = content.config_records["answer"]
    for name in ("run", "token"):
        if words.get(name) != getattr(question, name):
            raise Unexpected(f"site {question.site}: it answers another {name} (a replay, or a node of another run)")
    if "refused" in words:
        raise Refused(clipped(words["refused"]))
    return dict(words)


def reason(error: Exception, what: str) -> str:
    """Why a site's `what` is refused. Only our own words: those of other errors may quote what came."""
    return str(error) if isinstance(error, Unexpected) else f"its {what} cannot be read ({type(error).__name__})"


def everyone_failed(question: Question, code: FaultCode, reason: str) -> list[ClientResults]:
    text = reason if reason.startswith(f"site {question.site}: ") else f"site {question.site}: {reason}"
    fault = ClientFault(code, EnvironmentFailed(text))
    return [dict.fromkeys(item.slots, fault) for item in question.items]


def clipped(text: Any) -> str:
    """A site's sentence as a log may hold it: one line, of printable characters."""
    line = " ".join(str(text)[:LONGEST].split())
    return "".join(c for c in line if c.isprintable())


def _failures(content: RecordDict, question: Question) -> dict[tuple[int, int], ClientFault]:
    """What the site itself says could not be done."""
    written = str(content.config_records["failures"]["list"])
    if len(written) > MOST_WORDS:
        raise Unexpected(f"site {question.site}: its list of failures has {len(written)} characters")
    listed = json.loads(written)
    asked = {(place, client) for place, item in enumerate(question.items) for client in item.clients}
    failures = {}
    for place, client, kind, text in listed:
        if (place, client) not in asked:
            raise Unexpected(f"site {question.site}: it speaks of client {clipped(client)}, which was not asked")
        code = CODES.get(kind, FaultCode.RAISED)
        failures[place, client] = ClientFault(code, EnvironmentFailed(f"site {question.site}: {clipped(text)}"))
    return failures


def _check_records(content: RecordDict, question: Question, failures: dict[tuple[int, int], ClientFault]) -> None:
    wanted = {
        f"{place}/{client}"
        for place, item in enumerate(question.items)
        for client in item.clients
        if (place, client) not in failures
    }
    came = set(content.array_records)
    if extra := sorted(came - wanted):
        raise Unexpected(
            f"site {question.site}: {len(extra)} records came that were not asked for ({clipped(extra[0])})"
        )
    if missing := sorted(wanted - came):
        raise Unexpected(f"site {question.site}: the answer of {missing[0]} is missing")


def _result(record: ArrayRecord, who: str, item: Asked, largest: float) -> WorkResult | ClientFault:
    like = item.expected._replace(memory=())
    try:
        if len(record) != len(jax.tree.leaves(like)):
            raise Unexpected(f"{len(record)} arrays came, expected {len(jax.tree.leaves(like))}")
        sent = {path: array.data for path, array in record.items()}
        done: WorkResult = leaves.tree(sent, "done", zeros_of(like))
    except Exception as error:  # whatever a stranger may have sent
        return ClientFault(FaultCode.SHAPE, EnvironmentFailed(f"{who}: {reason(error, 'result')}"))
    with np.errstate(all="ignore"):  # NaN is what we look for
        upload = [_size(x) for x in _floats(done.upload)]
        metrics = [_size(x[np.isfinite(x)]) for x in _floats(done.metrics)]  # others say that nothing was measured
    if not np.all(np.isfinite(upload)):
        return ClientFault(FaultCode.NOT_FINITE, EnvironmentFailed(f"{who}: its upload is not finite"))
    if (size := max(upload + metrics, default=0.0)) > largest:
        text = f"{who}: a number of size {size:.3g}, the limit is {largest:g}"
        return ClientFault(FaultCode.NUMBER, EnvironmentFailed(text))
    version = np.int32(item.version) if jax.tree.leaves(item.expected.memory) else ()
    return done._replace(memory=version)


def _floats(tree: Tree) -> list[np.ndarray]:
    """Its floats as arrays that NumPy can compare."""
    inexact = [np.asarray(x) for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]
    real = [np.abs(x) if np.iscomplexobj(x) else x for x in inexact]
    return [x if x.dtype.itemsize > 2 else x.astype(np.float32) for x in real]


def _size(x: np.ndarray) -> float:
    """The largest absolute value in `x`, without a copy; not finite if there is one that is not."""
    return max(abs(float(np.max(x, initial=0.0))), abs(float(np.min(x, initial=0.0))))
