"""Real sockets on loopback: free, taken, and by whom."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from fedrl.organisations import ports

LISTEN = (
    "import socket, sys; one = socket.socket(); one.bind(('127.0.0.1', 0)); one.listen(); "
    "print(one.getsockname()[1], flush=True); sys.stdin.read()"
)


def listening(family: int = socket.AF_INET, host: str = "127.0.0.1") -> socket.socket:
    one = socket.socket(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server does
    one.bind((host, 0))
    one.listen()
    return one


def test_a_port_is_free_once_nobody_listens():
    with listening() as one:
        port = one.getsockname()[1]
        assert ports.is_taken(ports.trouble("127.0.0.1", port))
        assert ports.is_taken(ports.trouble("0.0.0.0", port))
        assert ports.holder(port).startswith(f"process {os.getpid()} (")
    assert ports.trouble("127.0.0.1", port) is None
    assert ports.holder(port) == "another process"


def test_a_connection_that_has_just_ended_does_not_take_the_port():
    """Its end waits in TIME_WAIT, in which nginx can listen."""
    with listening() as one:
        port = one.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            there, _ = one.accept()
            there.close()
            assert client.recv(1) == b""
    assert ports.trouble("127.0.0.1", port) is None


def test_the_process_that_listens_is_named():
    with subprocess.Popen(
        [sys.executable, "-S", "-c", LISTEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        port = int(process.stdout.readline())
        assert ports.holder(port).startswith(f"process {process.pid} (python")
        process.stdin.close()


def test_an_address_of_another_machine_is_trouble_but_not_taken():
    error = ports.trouble("192.0.2.7", 8443)
    assert error.errno == errno.EADDRNOTAVAIL
    assert not ports.is_taken(error)


def test_ipv6():
    try:
        one = listening(socket.AF_INET6, "::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with one:
        port = one.getsockname()[1]
        assert ports.is_taken(ports.trouble("::1", port))
        assert ports.holder(port).startswith(f"process {os.getpid()} (")


def test_a_free_port_is_free():
    assert ports.trouble("127.0.0.1", ports.free_port()) is None
