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
AT_ONCE = 1 << 20


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
    try:
        header, lengths = json.loads(_exactly(connection, size))
        if any(type(length) is not int or not 0 <= length <= LARGEST_BLOB for length in lengths):
            raise ValueError("impossible lengths")
    except (ValueError, TypeError, RecursionError) as error:
        raise Broken(f"a header that is none ({type(error).__name__})") from error
    return Frame(header, [_exactly(connection, length) for length in lengths])


def _exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; memory is taken as they come, whatever was announced."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), AT_ONCE))
        if not piece:
            raise Broken("the connection ended early")
        data += piece
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
