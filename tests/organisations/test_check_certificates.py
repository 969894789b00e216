"""What `check` says of certificates and keys, one at a time."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="it is not installed: pip install 'fedrl[flower]'")

from support.tls_server import issue_for_tomorrow

from fedrl.organisations import certificates, check_certificates, init
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.check_certificates import HOST, KEY, SIGNER
from fedrl.organisations.check_items import FAIL, OK, SKIPPED, WARN, Item
from fedrl.organisations.layout import ServerFiles, SiteFiles


@pytest.fixture
def wards(tmp_path) -> Path:
    init.create(tmp_path / "wards", ["a", "b"], "fed.example.org:8443")
    return tmp_path / "wards"


def server(wards: Path) -> ServerFiles:
    return ServerFiles(wards / "server")


def day(days: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}"


@pytest.mark.parametrize(
    ("days", "result", "words"),
    [
        (-1, FAIL, f"it expired on {day(-1)}"),
        (1, WARN, f"it expires in 0 days, on {day(1)}"),
        (29, WARN, f"it expires in 28 days, on {day(29)}"),
        (31, OK, f"valid until {day(31)}"),
    ],
)
def test_dates(wards, days, result, words):
    certificates.issue_server(AuthorityFiles(wards / "ca"), server(wards), "fed.example.org", days=days)
    item = check_certificates.dates(server(wards).certificate, "ask somebody")
    assert item == Item("dates of server.crt", result, words, "" if result == OK else "ask somebody")


def test_the_date_of_tomorrow_is_a_matter_of_the_clock(wards):
    issue_for_tomorrow(AuthorityFiles(wards / "ca"), server(wards))
    item = check_certificates.dates(server(wards).certificate, "ask somebody")
    assert item.found.startswith(f"not valid before {day(1)} ")
    assert f", and this machine's clock says {day(0)} " in item.found
    assert item.do == "set the clock (timedatectl set-ntp true)"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, " is not there; restore it from your backup, or ask the operator for it"),
        (b"", " is not a certificate in PEM form; restore it from your backup"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", " is not a certificate in PEM form; "),
        ("a folder", " cannot be read (Is a directory); it must be a file that this user may read"),
    ],
)
@pytest.mark.parametrize("name", ["server.crt", "ca.crt"])
def test_a_certificate_that_cannot_be_read(wards, name, content, words):
    """Its own line has the sentence; what needs it is not checked."""
    path = wards / "server" / name
    path.unlink()
    if content == "a folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    found = {item.item: item for item in check_certificates.of_server(server(wards), "fed.example.org")}
    assert found[f"dates of {name}"].found.startswith(f"{path}{words}")
    assert [item.item for item in found.values() if item.result == FAIL] == [f"dates of {name}"]
    assert found[SIGNER].result == found[HOST].result == found[KEY].result == SKIPPED


def test_capitals_of_a_host_do_not_count(wards):
    found = {item.item: item for item in check_certificates.of_server(server(wards), "FED.example.ORG")}
    assert found[HOST].result == OK


@pytest.mark.parametrize("host", ["fed.example.com", "192.0.2.1", "example.org"])
def test_another_host(wards, host):
    found = {item.item: item for item in check_certificates.of_server(server(wards), host)}
    assert found[HOST].found == f"it names fed.example.org, localhost, 127.0.0.1, but sites connect to {host}"
    assert found[HOST].do.startswith("fedrl federation init DIR --renew")


def test_a_name_that_two_authorities_have(wards, tmp_path):
    """The key decides, not the name."""
    other = AuthorityFiles(tmp_path / "other")
    other.home.mkdir()
    certificates.create_authority(other, "wards")
    shutil.copy(other.certificate, server(wards).ca)
    found = {item.item: item for item in check_certificates.of_server(server(wards), "fed.example.org")}
    assert found[SIGNER].result == FAIL


def test_a_key_that_cannot_be_read(wards):
    server(wards).key.write_text("hello")
    found = {item.item: item for item in check_certificates.of_server(server(wards), "fed.example.org")}
    assert found[KEY].found.endswith(
        "server.key is not a private key without a passphrase; restore it from your backup"
    )


def test_the_key_pair_of_a_site(wards):
    a, b = SiteFiles(wards / "a"), SiteFiles(wards / "b")
    assert check_certificates.key_pair(a).result == OK
    shutil.copy(b.public_key, a.public_key)
    item = check_certificates.key_pair(a)
    assert item.found == "site.pub is not the public half of site.key"
    assert item.do == "ask the operator for a new key (fedrl federation init DIR --add SITE)"
    a.public_key.write_text("hello")
    assert "neither a public key as OpenSSH writes it" in check_certificates.key_pair(a).found
    a.key.write_text("hello")
    assert "is not a private key as OpenSSH writes it" in check_certificates.key_pair(a).found
    a.key.unlink()
    assert "site.key is not there" in check_certificates.key_pair(a).found


def test_the_authoritys_key_beside_the_server(wards):
    item = check_certificates.authority_key(server(wards))
    assert item.result == WARN
    assert item.found.startswith(f"{wards}/ca/ca.key is on this machine")
    (wards / "ca").rename(wards.parent / "apart")
    assert check_certificates.authority_key(server(wards)).result == OK
