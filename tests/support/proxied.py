"""The real nginx in front of what stands for Flower's SuperLink: a TLS server that answers what it was asked."""

import http.client
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from support.superlink import answers, free_port, until

from fedrl.organisations import certificates, proxy
from fedrl.organisations.addresses import Address
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.layout import ServerFiles

HAS_NGINX = shutil.which("nginx") or shutil.which("nginx", path=proxy.SBIN)
needs_nginx = pytest.mark.skipif(not HAS_NGINX, reason="no nginx: apt-get install nginx-light")


class Upstream(BaseHTTPRequestHandler):
    """Answers what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(self.path)
        wants_large = self.headers.get("Wants") == "large"
        content = b"x" * (6 << 20) if wants_large else json.dumps([self.path, size, dict(self.headers)]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        pass


class Place(NamedTuple):
    files: ServerFiles
    address: Address
    seen: list[str]  # paths that came through

    def ask(self, path: str, method: str = "POST", body: bytes = b"hello", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(*self.address, context=trusting(self.files), timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):  # refused before all of it was sent
                connection.send(body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def trusting(files: ServerFiles) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.ca))


def make_files(home: Path) -> ServerFiles:
    authority, files = AuthorityFiles(home / "ca"), ServerFiles(home / "server")
    for folder in (authority.home, files.home):
        folder.mkdir(parents=True, mode=0o700)
    certificates.create_authority(authority, "wards")
    certificates.issue_server(authority, files, "localhost")
    shutil.copyfile(authority.certificate, files.ca)
    return files


@contextmanager
def superlink(files: ServerFiles) -> Iterator[ThreadingHTTPServer]:
    """What stands for Flower's SuperLink: TLS on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.seen, server.daemon_threads = [], True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


@contextmanager
def nginx(files: ServerFiles, port: int, listen: Address) -> Iterator[None]:
    proxy.write(files, port, listen)
    with started(files, listen):
        yield


@contextmanager
def started(files: ServerFiles, listen: Address, **how: object) -> Iterator[None]:
    with (files.home / "nginx.out").open("wb") as out:
        process = subprocess.Popen(proxy.command(files), stdout=out, stderr=out, **how)
    try:
        until(lambda: answers(*listen) or process.poll() is not None, 60)
        assert process.poll() is None, (files.home / "nginx.out").read_text()
        yield
    finally:
        process.terminate()
        code = process.wait(60)
    assert code == 0
    assert not answers(*listen)


@contextmanager
def place(home: Path) -> Iterator[Place]:
    files = make_files(home)
    listen = Address("127.0.0.1", free_port())
    with superlink(files) as server, nginx(files, server.server_address[1], listen):
        yield Place(files, listen, server.seen)
