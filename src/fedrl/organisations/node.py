"""What Flower starts at a site for every message: it hands the message to the site's worker and returns the answer.

It imports little besides Flower, because a new process does so for every message. The worker, which `fedrl federation join`
keeps running, has JAX, compiled programs and open environments.
"""

import time
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedrl.organisations import frames
from fedrl.organisations.frames import Frame
from fedrl.organisations.layout import site_home

PATIENCE = 600.0  # seconds in which a worker that ended must be back
PAUSE = 0.2

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    return answer("query", message)


@app.train()
def work(message: Message, context: Context) -> Message:
    return answer("work", message)


def answer(call: str, message: Message) -> Message:
    """The worker's answer. If the worker ends meanwhile, the next one is asked: the same question has the same answer."""
    request, end = to_frame(call, message.content), time.monotonic() + PATIENCE
    while True:
        try:
            with frames.connect(site_home().socket) as connection:
                frames.send(connection, request)
                return Message(to_record(frames.receive(connection)), reply_to=message)
        except OSError as error:
            if time.monotonic() > end:
                raise RuntimeError(f"the worker of this site does not answer ({error})") from error
            time.sleep(PAUSE)


def to_frame(call: str, content: RecordDict) -> Frame:
    records, blobs = {}, []
    for name, record in content.array_records.items():
        records[name] = [[path, array.dtype, list(array.shape), array.stype] for path, array in record.items()]
        blobs += [array.data for array in record.values()]
    words = {name: dict(record) for name, record in content.config_records.items()}
    return Frame({"call": call, "arrays": records, "words": words}, blobs)


def to_record(frame: Frame) -> RecordDict:
    blobs = iter(frame.blobs)
    records: dict[str, Any] = {name: ConfigRecord(words) for name, words in frame.header["words"].items()}
    for name, arrays in frame.header["arrays"].items():
        records[name] = ArrayRecord(
            {path: Array(dtype, tuple(shape), stype, next(blobs)) for path, dtype, shape, stype in arrays}
        )
    return RecordDict(records)
