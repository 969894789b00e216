"""What a site may send instead of its answer, as changes of the true one; and what the server says of each.

The site is b, whose only client is number 2, in a federation of gymnasium's CliffWalking-v1.
"""

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedrl.engines import wire


def asked_round(message) -> int | None:
    """The round, from 1, in which a message asks for training."""
    for item in json.loads(message.content.config_records["asked"]["items"]):
        if item["exchange"] == "train":
            return item["address"][1] + 1
    return None


def changed(answer, change):
    """`answer`, whose client's upload in training went through `change` as an array."""
    name = max(answer.content.array_records)
    record = dict(answer.content.array_records[name])
    path = next(path for path in record if path.startswith("done/upload"))
    (leaf,), _ = wire.unpack(record[path].data)
    data = change(np.array(leaf))
    new = wire.pack([data]) if isinstance(data, np.ndarray) else data
    record[path] = Array("float32", tuple(leaf.shape), "fedrl.wire", new)
    return with_records(answer, {name: ArrayRecord(record)})


def with_records(answer, records):
    answer.content = RecordDict({**answer.content, **records})
    return answer


def filled(number):
    def change(x):
        x.flat[0] = number
        return x

    return lambda message, answer: changed(answer, change)


def worded(**words):
    def twist(message, answer):
        return with_records(answer, {"answer": ConfigRecord({**answer.content.config_records["answer"], **words})})

    return twist


def listed(text):
    return lambda message, answer: with_records(answer, {"failures": ConfigRecord({"list": text})})


def renamed(message, answer):
    """The client of site b answers as client 0, which is site a's."""
    name = max(answer.content.array_records)
    content = {key: record for key, record in answer.content.items() if key != name}
    answer.content = RecordDict({**content, name.split("/")[0] + "/0": answer.content[name]})
    return answer


def without_arrays(message, answer):
    return with_records(answer, {max(answer.content.array_records): ArrayRecord({})})


def another_message(message, answer):
    answer.metadata.__dict__["_reply_to_message_id"] = "0" * 64
    return answer


LIES = {
    "NaN": (filled(np.nan), "its upload is not finite"),
    "inf": (filled(np.inf), "its upload is not finite"),
    "1e30": (filled(1e30), "beyond the limit (site b: client 2: a number of size 1e+30, the limit is 1e+06)"),
    "shape": (lambda m, a: changed(a, lambda x: x.T.copy()), "came as float32[4, 48], expected float32[48, 4]"),
    "dtype": (lambda m, a: changed(a, lambda x: x.astype(np.float64)), "came as float64[48, 4], expected float32[48, 4]"),
    "too large": (lambda m, a: changed(a, lambda x: np.zeros((999, 999), np.float32)), "came as float32[999, 999]"),
    "header": (lambda m, a: changed(a, lambda x: wire.pack([x])[:-64]), "expected float32[48, 4]"),
    "no array": (lambda m, a: changed(a, lambda x: b"\xff" * 40), "that are no array"),
    "missing": (without_arrays, "0 arrays came, expected"),
    "another's client": (renamed, "1 records came that were not asked for (1/0)"),
    "run": (worded(run="f" * 16), "it answers another run"),
    "token": (worded(token="f" * 16), "it answers another token"),
    "another message": (another_message, "its answer is to another message"),
    "words": (listed("[" * 100_000), "its answer cannot be read (RecursionError)"),
    "failures": (listed('[[0, 0, "raised", "x"]]'), "it speaks of client 0, which was not asked"),
    "log": (worded(refused="no\n\x1b[2JFATAL: \u202eall is lost"), "takes no part (site b: no [2JFATAL: all is lost)"),
    "unreadable": (lambda m, a: KeyError("some object"), "its answer cannot be read (KeyError)"),
    "error": (lambda m, a: Message(Error(2, "\x1b[2J"), reply_to=m), "cannot start its part; its own log says more"),
}  # fmt: skip
