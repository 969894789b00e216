"""What a site's `check` finds on its way to real servers on loopback."""

import re
import shutil
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.superlink import answers, free_port, until
from support.tls_server import answering, issue_for_tomorrow, serving

from fedrl.organisations import certificates, check_link, proxy
from fedrl.organisations.addresses import Address
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.check_items import FAIL, OK, SKIPPED, WARN, Item
from fedrl.organisations.layout import ServerFiles

HAS_NGINX = shutil.which("nginx") or shutil.which("nginx", path=proxy.SBIN)


@pytest.fixture
def made(tmp_path) -> tuple[AuthorityFiles, ServerFiles]:
    return make(tmp_path)


def make(home: Path) -> tuple[AuthorityFiles, ServerFiles]:
    authority, files = AuthorityFiles(home / "ca"), ServerFiles(home / "server")
    authority.home.mkdir(parents=True)
    files.home.mkdir()
    certificates.create_authority(authority, "wards")
    certificates.issue_server(authority, files, "localhost")
    shutil.copyfile(authority.certificate, files.ca)
    return authority, files


def look(port: int, ca: Path, host: str = "127.0.0.1") -> list[Item]:
    found = list(check_link.items(f"{host}:{port}", ca))
    assert tuple(item.item for item in found) == check_link.NAMES
    assert all(item.do for item in found if item.result in (FAIL, WARN))
    return found


def results(found: list[Item]) -> list[str]:
    return [item.result for item in found]


def test_a_server_that_is_fine(made):
    with answering(made[1]) as port:
        found = look(port, made[1].ca, "localhost")
    assert results(found) == [OK] * 5
    assert found[2].found == "localhost has a certificate that the authority in ca.crt signed"


@pytest.mark.skipif(not HAS_NGINX, reason="no nginx: apt-get install nginx-light")
def test_the_real_proxy_is_fine(made):
    listen = Address("127.0.0.1", free_port())
    proxy.write(made[1], free_port(), listen)
    process = subprocess.Popen(proxy.command(made[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(*listen), 60)
        assert results(look(listen.port, made[1].ca)) == [OK] * 5
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize(
    ("ahead", "result", "words"),
    [
        (
            300,
            FAIL,
            r"this machine is (299|30[01]) s behind the server; Flower refuses sites that are more than 5 minutes behind",
        ),
        (
            -300,
            FAIL,
            r"this machine is (299|30[01]) s ahead of the server; Flower refuses sites that are more than 5 s ahead",
        ),
        (86400, FAIL, r"this machine is 86\d{3} s behind the server; .*"),
        (60, WARN, r"this machine is (59|6[01]) s behind the server"),
        (-8, FAIL, r"this machine is [789] s ahead of the server; .*"),
        (6, OK, r"this machine is [567] s behind the server"),
        (0, OK, r"within 2 s of the server's"),
    ],
)
def test_clocks(made, ahead, result, words):
    with answering(made[1], seconds=ahead) as port:
        clock = look(port, made[1].ca)[-1]
    assert clock.result == result
    assert re.fullmatch(words, clock.found), clock.found
    assert ("timedatectl set-ntp true" in clock.do) == (result != OK)


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_a_server_that_does_not_say_its_time(made, date):
    with answering(made[1], date=date) as port:
        clock = look(port, made[1].ca)[-1]
    assert (clock.result, clock.do) == (WARN, "compare the clocks by hand")
    assert clock.found == f"the server does not say what time it has (Date: {date or None})"


def test_something_else_than_the_proxy(made):
    with answering(made[1], status=200) as port:
        found = look(port, made[1].ca)
    assert results(found) == [OK, OK, OK, WARN, OK]
    assert (
        found[3].found == "GET / gives 200 and not 403, so this is not the proxy that `fedrl federation serve` starts"
    )


def test_a_wrong_ca(made, tmp_path):
    _, stranger = make(tmp_path / "other")
    with answering(made[1]) as port:
        found = look(port, stranger.ca)
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED]
    assert found[2].found == f"the certificate of 127.0.0.1 was not signed by the authority in {stranger.ca}"
    assert found[2].do.startswith("ask the operator for this federation's ca.crt")
    assert found[4].found == "not checked: whoever answers has not proven to be the server"


def test_an_expired_certificate(made):
    certificates.issue_server(*made, "localhost", days=-1)
    with answering(made[1]) as port:
        found = look(port, made[1].ca)
    assert results(found) == [OK, OK, FAIL, OK, OK]  # the clock may be the reason, so it is compared all the same
    assert found[2].found == "by this machine's clock, the certificate of 127.0.0.1 has expired"
    assert "fedrl federation init DIR --renew" in found[2].do


def test_a_certificate_of_tomorrow(made):
    issue_for_tomorrow(*made)
    with answering(made[1], seconds=86400) as port:
        found = look(port, made[1].ca)
    assert results(found) == [OK, OK, FAIL, OK, FAIL]
    assert found[2].found == "by this machine's clock, the certificate of 127.0.0.1 is not valid yet"
    assert "set this machine's clock" in found[2].do


def test_an_authority_that_has_expired(made):
    """Both are wrong: whatever OpenSSL sees first, it is a line with what to do."""
    authority, files = made
    certificates.create_authority(authority, "wards", days=-1)
    with answering(files) as port:
        found = look(port, authority.certificate)
    assert found[2].result == FAIL


def test_a_certificate_for_another_host(made):
    with answering(made[1]) as port:
        forwarder = socket.create_server(("127.0.0.2", 0))
        thread = threading.Thread(target=forward_once, args=(forwarder, port, 2))
        thread.start()
        found = look(forwarder.getsockname()[1], made[1].ca, "127.0.0.2")
        thread.join(30)
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED]
    assert found[2].found == "the certificate is for another host than 127.0.0.2"


def forward_once(listening: socket.socket, port: int, connections: int) -> None:
    """What comes to another address reaches the server, for so many connections."""
    with listening:
        for _ in range(connections):
            there, _ = listening.accept()
            with there, socket.create_connection(("127.0.0.1", port)) as server:
                there.settimeout(5)
                server.settimeout(5)
                if hello := there.recv(1 << 16):
                    server.sendall(hello)
                    there.sendall(server.recv(1 << 16))
                    there.recv(1 << 16)


def test_nobody_listens(made):
    port = free_port()
    found = look(port, made[1].ca)
    assert results(found) == [OK, FAIL, SKIPPED, SKIPPED, SKIPPED]
    assert found[1].found == f"127.0.0.1:{port} refuses connections"
    assert found[1].do == "ask the operator whether the server is running, and on which port"


def test_a_name_that_nobody_has(made):
    found = look(8443, made[1].ca, "nowhere.invalid")
    assert results(found) == [FAIL, SKIPPED, SKIPPED, SKIPPED, SKIPPED]
    assert found[0].found.startswith("no address is known for nowhere.invalid (")


def test_a_server_that_says_nothing(made, monkeypatch):
    monkeypatch.setattr(check_link, "PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = look(silent.getsockname()[1], made[1].ca)
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED]
    assert "accepts the connection, but says nothing for " in found[2].found


class Plain(BaseHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        pass


def test_a_server_without_tls(made):
    with serving(HTTPServer(("127.0.0.1", 0), Plain)) as port:
        found = look(port, made[1].ca)
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED]
    assert found[2].found.startswith(f"127.0.0.1:{port} does not speak TLS (")
    assert "[" not in found[2].found


def test_a_server_that_speaks_tls_but_not_http(made):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made[1].certificate, made[1].key)
    listening = socket.create_server(("127.0.0.1", 0))

    def babble() -> None:
        with listening:
            listening.accept()[0].close()  # the look at the port
            with context.wrap_socket(listening.accept()[0], server_side=True) as there:
                there.recv(1 << 16)
                there.sendall(b"220 mail.example.org ESMTP\r\n")

    thread = threading.Thread(target=babble)
    thread.start()
    found = look(listening.getsockname()[1], made[1].ca)
    thread.join(30)
    assert results(found) == [OK, OK, OK, FAIL, SKIPPED]
    assert found[3].found.endswith(" does not speak HTTP")


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_a_ca_that_cannot_be_used(made, tmp_path, content):
    ca = tmp_path / "some.crt"
    if content is not None:
        ca.write_bytes(content)
    with answering(made[1]) as port:
        found = look(port, ca)
    assert results(found) == [OK, OK, FAIL, SKIPPED, SKIPPED]
    assert found[2].found.startswith(f"{ca} cannot be used (")
    assert found[2].do == "ask the operator for ca.crt"
