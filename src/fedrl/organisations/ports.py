"""Whether a port is free, and who has it."""

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LISTENS = "0A"  # the state of a listening socket in /proc/net/tcp


def trouble(host: str, port: int) -> OSError | None:
    """Why nobody could listen there now; None if it is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, port))
            one.listen(1)
    except OSError as error:
        return error
    return None


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def is_taken(error: OSError) -> bool:
    return error.errno == errno.EADDRINUSE


def holder(port: int) -> str:
    """The process that listens on `port`: "process 123 (nginx)", or "another process" where that cannot be found out."""
    sockets = {f"socket:[{number}]" for number in _listening(port)}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if sockets & set(_open_files(folder)):
                return f"process {folder.name} ({(folder / 'comm').read_text().strip()})"
        except OSError:  # it belongs to another user, or has ended
            continue
    return "another process"


def _open_files(process: Path) -> Iterator[str]:
    for link in list((process / "fd").iterdir()):
        with suppress(FileNotFoundError):  # closed meanwhile
            yield str(link.readlink())


def _listening(port: int) -> set[str]:
    """The inodes of sockets that listen on `port`."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:  # no Linux, or no IPv6
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found
