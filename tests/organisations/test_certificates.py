"""Certificates are those that OpenSSL accepts, for the right hosts, and what is wrong with one is found."""

import os
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedrl.organisations import certificates
from fedrl.organisations.certificates import AuthorityFiles, CertificateError
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.private_files import write_private


@pytest.fixture
def made(tmp_path) -> tuple[AuthorityFiles, ServerFiles]:
    """An authority, and a server's certificate for fed.example.org."""
    return issue(tmp_path, "fed.example.org")


def issue(folder: Path, host: str, days: int = 730) -> tuple[AuthorityFiles, ServerFiles]:
    authority, server = AuthorityFiles(folder / "ca"), ServerFiles(folder / "server")
    for home in (authority.home, server.home):
        home.mkdir(parents=True)
    certificates.create_authority(authority, "wards")
    certificates.issue_server(authority, server, host, days)
    return authority, server


def handshake(authority: AuthorityFiles, server: ServerFiles, host: str) -> str:
    """The version of TLS that a client which trusts only `authority` and wants `host` agrees on with the server."""
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(server.certificate, server.key)
    here = ssl.create_default_context(cafile=str(authority.certificate))
    here.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def serve() -> None:
            try:
                there.wrap_socket(theirs, server_side=True).close()
            except (ssl.SSLError, OSError):  # the client refused; it says why
                theirs.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with here.wrap_socket(ours, server_hostname=host) as client:
                return str(client.version())
        finally:
            ours.close()
            thread.join(30)


@pytest.mark.parametrize("host", ["fed.example.org", "localhost", "127.0.0.1"])
def test_a_client_that_trusts_the_authority_connects(made, host):
    assert handshake(*made, host) == "TLSv1.3"


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
def test_an_address_may_be_a_number(tmp_path, host):
    authority, server = issue(tmp_path, host)
    assert handshake(authority, server, host) == "TLSv1.3"
    assert certificates.names(certificates.read(server.certificate)) == ["localhost", host, "127.0.0.1"]


def test_another_host_is_refused(made):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(*made, "other.example.org")


def test_another_authority_is_refused(made, tmp_path):
    stranger, _ = issue(tmp_path / "other", "fed.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(stranger, made[1], "fed.example.org")


def test_an_expired_certificate_is_refused(tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(*issue(tmp_path, "fed.example.org", days=-1), "fed.example.org")


def test_what_can_be_asked_of_a_certificate(made, tmp_path):
    authority, server = made
    certificate, issuer = certificates.read(server.certificate), certificates.read(authority.certificate)
    assert certificates.is_signed_by(certificate, issuer)
    assert not certificates.is_signed_by(issuer, certificate)
    stranger, other = issue(tmp_path / "other", "fed.example.org")
    assert not certificates.is_signed_by(certificate, certificates.read(stranger.certificate))  # of the same name
    hosts = ("fed.example.org", "FED.example.org", "localhost", "127.0.0.1", "fed.example.com", "127.0.0.2")
    assert [certificates.is_for_host(certificate, host) for host in hosts] == [True] * 4 + [False] * 2
    assert certificates.is_for_key(certificate, server.key)
    assert not certificates.is_for_key(certificate, other.key)


def test_dates(made):
    now = datetime.now(UTC)
    authority, server = map(certificates.read, (made[0].certificate, made[1].certificate))
    for certificate, years in ((authority, 10), (server, 2)):
        assert timedelta(hours=23) < now - certificates.valid_from(certificate) < timedelta(hours=25)
        assert abs(certificates.valid_until(certificate) - now - timedelta(days=365 * years)) < timedelta(minutes=5)


def test_a_server_does_not_outlive_its_authority(made):
    issued = certificates.issue_server(*made, "fed.example.org", days=10_000)
    assert certificates.valid_until(issued) == certificates.valid_until(certificates.read(made[0].certificate))


def test_an_authority_that_expired_issues_nothing(made):
    certificates.create_authority(made[0], "wards", days=-1)
    before = made[1].certificate.read_bytes()
    with pytest.raises(CertificateError, match="expired on .*; make a new federation with `fedrl federation init`"):
        certificates.issue_server(*made, "fed.example.org")
    assert made[1].certificate.read_bytes() == before


def test_keys_of_two_authorities_are_not_mixed_up(made, tmp_path):
    stranger, _ = issue(tmp_path / "other", "fed.example.org")
    made[0].key.write_bytes(stranger.key.read_bytes())
    with pytest.raises(CertificateError, match="is not the key of .*; restore both from one backup"):
        certificates.issue_server(*made, "fed.example.org")


@pytest.mark.parametrize(
    "content", [None, b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_a_sentence(tmp_path, content):
    file = tmp_path / "some.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CertificateError, match=f"{file} is not "):
        certificates.read(file)
    with pytest.raises(CertificateError, match=f"{file} is not "):
        certificates.is_for_key(None, file)


def test_private_files_are_never_open_to_others(made, tmp_path):
    """The mode is there from the first instant: the file is made with it, whatever the umask."""
    for file in (made[0].key, made[1].key):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    seen: list[tuple[str, int]] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            for entry in os.scandir(tmp_path):
                if "hidden" in entry.name:
                    try:
                        seen.append((entry.name, stat.S_IMODE(os.lstat(entry.path).st_mode)))
                    except FileNotFoundError:  # it has just been renamed
                        continue

    thread = threading.Thread(target=watch)
    before = os.umask(0)
    try:
        thread.start()
        for number in range(200):
            write_private(tmp_path / "hidden", b"%d" % number)
    finally:
        stop.set()
        thread.join()
        os.umask(before)
    assert seen
    assert {mode for _, mode in seen} == {0o600}
    assert (tmp_path / "hidden").read_bytes() == b"199"
    assert [name for name in os.listdir(tmp_path) if "hidden" in name] == ["hidden"]


def test_a_umask_that_forbids_everything_does_not_matter(tmp_path):
    before = os.umask(0o777)
    try:
        write_private(tmp_path / "hidden", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "hidden").stat().st_mode) == 0o600
