"""Messages over the socket between Flower's process and the worker: a header as JSON, then bytes. Standard library only."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

LARGEST_HEADER = 64 << 20
LARGEST_BLOB = 1 << 40


class Frame(NamedTuple):
    header: Any
    blobs: list[bytes]


class Broken(ConnectionError):
    """The other end went away in the middle of a message."""


def send(connection: socket.socket, frame: Frame) -> None:
    header = json.dumps([frame.header, [len(blob) for blob in frame.blobs]]).encode()
    connection.sendall(len(header).to_bytes(8, "little") + header)
    for blob in frame.blobs:
        connection.sendall(blob)


def receive(connection: socket.socket) -> Frame:
    size = int.from_bytes(_exactly(connection, 8), "little")
    if size > LARGEST_HEADER:
        raise Broken(f"a header of {size} bytes")
    header, lengths = json.loads(_exactly(connection, size))
    if any(not 0 <= length <= LARGEST_BLOB for length in lengths):
        raise Broken("impossible lengths")
    return Frame(header, [_exactly(connection, length) for length in lengths])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = connection.recv_into(view[done:])
        if count == 0:
            raise Broken("the connection ended early")
        done += count
    return bytes(data)


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A short name of the socket `path` while the block runs: names of sockets hold a hundred characters, folders more."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with reachable(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def listen(path: Path) -> socket.socket:
    """A socket that only this user may connect to; one that is left over is replaced."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(path) as name:
            server.bind(name)
    except BaseException:
        server.close()
        raise
    finally:
        os.umask(before)
    server.listen(8)
    return server
