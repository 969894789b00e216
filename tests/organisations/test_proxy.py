"""The real nginx in front of a real TLS server: what passes and what does not."""

import http.client
import json
import os
import pwd
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.proxied import Place, make_files, needs_nginx, nginx, place, started, superlink, trusting
from support.superlink import free_port, until

from fedrl.organisations import proxy
from fedrl.organisations.addresses import Address
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.proxy import ProxyError

TEN = [f"/v1/fleet/{name}" for name in proxy.PATHS]


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Iterator[Place]:
    with place(tmp_path_factory.mktemp("proxy")) as one:
        yield one


@needs_nginx
@pytest.mark.parametrize("path", TEN)
def test_what_a_node_needs_passes(here, path):
    status, content = here.ask(path)
    assert status == 200
    assert json.loads(content)[:2] == [path, 5]


@needs_nginx
def test_there_are_ten():
    assert len(set(TEN)) == 10


@needs_nginx
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/v1/fleet/pull-messages", "/"])
def test_other_methods_do_not(here, method, path):
    before = list(here.seen)
    assert here.ask(path, method)[0] == 403
    assert here.seen == before


OTHER_PATHS = [
    "/",
    "/v1/fleet/",
    "/v1/fleet/register-node",
    "/v1/fleet/unregister-node",
    "/v1/fleet/get-run/",
    "/v1/fleet/get-runs",
    "/v1/fleet/xget-run",
    "/x/v1/fleet/get-run",
    "/V1/FLEET/GET-RUN",
    "/v1/runtime/acquire-task",
    "/v1/control/start-run",
    "/v1/control/register-node",
    "/docs",
    "/openapi.json",
    "/health",
    "//v1/fleet/get-run",
    "/v1//fleet/get-run",
    "/v1/./fleet/get-run",
    "/v1/fleet/get%2drun",
    "/v1/fleet/%67et-run",
    "/v1/fleet/../runtime/acquire-task",
    "/v1/fleet/get-run/../../runtime/acquire-task",
    "/v1/runtime/acquire-task/../../fleet/get-run",
    "/v1/runtime/%2e%2e/fleet/get-run",
    "/v1/fleet/%2e%2e/runtime/acquire-task",
    "/v1/runtime/acquire-task%3f/../../fleet/get-run",
    "/v1/runtime/acquire-task%23/../../fleet/get-run",
    "/v1/runtime/acquire-task?/v1/fleet/get-run",
    "/v1/fleet/get-run?x=/v1/runtime/acquire-task",
    "/v1/fleet/get-run#/v1/runtime/acquire-task",
    "/v1/fleet/get-run;x",
    "/v1/fleet/get-run%00",
    "/v1/fleet/get-run%0a",
    "/v1/fleet/get-run%20",
    "/v1/fleet/get-run\\..\\x",
    "https://localhost/v1/runtime/acquire-task",
]


@needs_nginx
@pytest.mark.parametrize("path", OTHER_PATHS)
def test_other_paths_do_not(here, path):
    before = list(here.seen)
    assert here.ask(path)[0] in (400, 403)
    assert here.seen == before


@needs_nginx
def test_a_request_hidden_in_another_does_not(here):
    """Two lengths of one body, for which a proxy and a server could disagree where the next request begins."""
    hidden = b"POST /v1/runtime/acquire-task HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    heads = (
        b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(hidden),
        b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % len(hidden),
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: 0\r\n",
    )
    for head in heads:
        with trusting(here.files).wrap_socket(
            socket.create_connection(here.address, 30), server_hostname="localhost"
        ) as one:
            one.sendall(b"POST /v1/fleet/get-run HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n" + hidden)
            one.settimeout(1)
            said = b""
            try:
                while piece := one.recv(1 << 16):
                    said += piece
            except TimeoutError:
                pass
        assert said.startswith(b"HTTP/1.1 ")
    assert set(here.seen) <= set(TEN)


@needs_nginx
def test_a_piece_of_flowers_passes_and_a_larger_body_does_not(here):
    status, content = here.ask("/v1/fleet/push-object", body=bytes(6 << 20))
    assert status == 200
    assert json.loads(content)[1] == 6 << 20
    before = list(here.seen)
    assert here.ask("/v1/fleet/push-object", body=bytes(9 << 20))[0] == 413
    assert here.seen == before


@needs_nginx
def test_a_large_answer_passes(here):
    status, content = here.ask("/v1/fleet/pull-object", wants="large")
    assert status == 200
    assert len(content) == 6 << 20


@needs_nginx
def test_bodies_are_never_written_to_disk(here):
    here.ask("/v1/fleet/push-object", body=bytes(8 << 20))
    assert "temporary file" not in (here.files.logs / "proxy.log").read_text()
    assert [
        path for path in (here.files.state / "nginx").rglob("*") if path.is_file() and path.name != "nginx.pid"
    ] == []


@needs_nginx
def test_a_node_cannot_say_that_it_comes_from_elsewhere(here):
    forged = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "http", "Host": "other"}
    headers = json.loads(here.ask("/v1/fleet/get-run", **forged)[1])[2]
    assert [headers[name] for name in forged] == ["127.0.0.1", "https", "localhost"]


@needs_nginx
def test_signatures_pass_unchanged(here):
    headers = json.loads(here.ask("/v1/fleet/get-run", **{"flwr-signature": "abc", "flwr-public-key": "def"})[1])[2]
    assert (headers["flwr-signature"], headers["flwr-public-key"]) == ("abc", "def")


@needs_nginx
def test_nothing_is_said_about_versions(here):
    connection = http.client.HTTPSConnection(*here.address, context=trusting(here.files), timeout=60)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.getheader("Server") == "nginx"
    assert b"nginx/" not in answer.read()
    connection.close()


@needs_nginx
def test_without_tls_or_with_an_old_one_nobody_talks(here):
    plain = http.client.HTTPConnection(*here.address, timeout=60)
    plain.request("POST", "/v1/fleet/get-run", b"")
    assert plain.getresponse().status == 400
    plain.close()
    said = subprocess.run(
        ["openssl", "s_client", "-connect", str(here.address), "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "alert protocol version" in said.stderr


@needs_nginx
def test_requests_are_logged_with_their_status_except_those_that_repeat(here):
    log = proxy.access_log(here.files)
    here.ask("/v1/runtime/acquire-task-logged")
    here.ask("/v1/fleet/get-run")
    until(lambda: "POST /v1/fleet/get-run" in log.read_text().splitlines()[-1], 30)
    before = len(log.read_text().splitlines())
    here.ask("/v1/fleet/pull-messages")
    here.ask("/v1/fleet/send-node-heartbeat")
    here.ask("/v1/fleet/pull-messages", "GET")
    until(lambda: len(log.read_text().splitlines()) > before, 30)
    lines = log.read_text().splitlines()
    assert any('"POST /v1/runtime/acquire-task-logged HTTP/1.1" 403 ' in line for line in lines)
    assert any('"POST /v1/fleet/get-run HTTP/1.1" 200 ' in line for line in lines)
    assert ['"GET /v1/fleet/pull-messages HTTP/1.1" 403 ' in line for line in lines[before:]] == [True]


@needs_nginx
def test_too_much_at_once_is_answered_503_never_403(here):
    """A burst of one thousand requests in eight connections: Flower's node tries again after a 503."""
    statuses: list[int] = []

    def burst() -> None:
        connection = http.client.HTTPSConnection(*here.address, context=trusting(here.files), timeout=60)
        for _ in range(250):
            connection.request("POST", "/v1/fleet/get-run", b"")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=burst) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statuses) == 2000
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 600  # the burst that is allowed


@needs_nginx
def test_a_superlink_with_another_certificate_is_not_spoken_to(tmp_path):
    files, stranger = make_files(tmp_path / "ours"), make_files(tmp_path / "other")
    listen = Address("127.0.0.1", free_port())
    with superlink(stranger) as server, nginx(files, server.server_address[1], listen):
        assert Place(files, listen, []).ask("/v1/fleet/get-run")[0] == 502
        assert server.seen == []
    assert "upstream SSL certificate verify error" in (files.logs / "proxy.log").read_text()


@needs_nginx
def test_without_a_superlink_a_node_is_told_to_try_again(tmp_path):
    files, listen = make_files(tmp_path), Address("127.0.0.1", free_port())
    with nginx(files, free_port(), listen):
        assert Place(files, listen, []).ask("/v1/fleet/get-run")[0] == 502


@needs_nginx
@pytest.mark.parametrize("name", ["two words", "it's", 'say "hi"', "$host; {x}", "back\\slash", "wärds"])
def test_a_folder_may_have_any_name(tmp_path, name):
    with place(tmp_path / name) as one:
        assert one.ask("/v1/fleet/get-run")[0] == 200


@needs_nginx
def test_a_relative_folder_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with place(Path("here")) as one:
        assert one.ask("/v1/fleet/get-run", body=bytes(6 << 20))[0] == 200


@needs_nginx
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_start_it():
    """Everything it writes is in the folder."""
    nobody = pwd.getpwnam("nobody")
    who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    with tempfile.TemporaryDirectory() as home:  # pytest's own folders are closed to others
        files, listen = make_files(Path(home, "wards")), Address("127.0.0.1", free_port())
        with superlink(files) as server:
            proxy.write(files, server.server_address[1], listen)
            for path in (Path(home), *Path(home).rglob("*")):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
            with started(files, listen, **who):
                assert Place(files, listen, []).ask("/v1/fleet/push-object", body=bytes(6 << 20))[0] == 200


@needs_nginx
def test_an_ipv6_address_is_written_as_nginx_wants_it(tmp_path):
    files = make_files(tmp_path)
    proxy.write(files, 8000, Address("::1", free_port()))
    said = subprocess.run(proxy.checking_command(files), capture_output=True, text=True, timeout=60)
    if "Address family not supported" in said.stderr or "Cannot assign" in said.stderr:
        pytest.skip("this machine has no IPv6")
    assert said.returncode == 0, said.stderr


def test_without_nginx_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(proxy, "SBIN", str(tmp_path))
    with pytest.raises(
        ProxyError, match=r"needs nginx, which is not installed; install it: apt-get install nginx-light"
    ):
        proxy.command(ServerFiles(tmp_path))
