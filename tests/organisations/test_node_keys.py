"""Flower's own functions read the keys, and both forms of a public key are recognised as the same."""

import shutil
import stat
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.supercore.primitives import asymmetric

from fedrl.organisations import node_keys
from fedrl.organisations.node_keys import NodeKeyError


@pytest.fixture
def pair(tmp_path):
    private, public = tmp_path / "site.key", tmp_path / "site.pub"
    line = node_keys.create_pair(private, public, "ward7")
    return private, public, line


def test_flower_takes_the_pair(pair):
    private, public, line = pair
    key = load_ssh_private_key(private.read_bytes(), None)  # as flower-supernode does
    registered = load_ssh_public_key(public.read_bytes())  # as flwr supernode register does
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP384R1)
    assert asymmetric.uses_nist_ec_curve(registered)
    signed = asymmetric.sign_message(key, b"2026-01-01")
    assert asymmetric.verify_signature(registered, b"2026-01-01", signed)
    reported = asymmetric.public_key_to_bytes(registered)  # what grid.get_nodes() has
    assert reported == node_keys.pem_of(line) == node_keys.comparable(reported)
    assert reported.startswith(b"-----BEGIN PUBLIC KEY-----\n")


def test_the_private_key_is_private(pair):
    private, public, _ = pair
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert private.read_bytes().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert b"PRIVATE" not in public.read_bytes()


def test_all_forms_of_a_public_key_are_one(pair):
    private, public, line = pair
    expected = node_keys.read_public(public)
    without_comment = " ".join(line.split()[:2])
    assert line.endswith(" ward7")
    assert node_keys.public_of(private) == without_comment
    pem = node_keys.pem_of(line)
    forms = (line, without_comment, f"  {line}\n", line.encode(), pem, pem.decode(), pem.replace(b"\n", b"\r\n"))
    assert {node_keys.comparable(form) for form in forms} == {expected}


def test_other_keys_are_different(tmp_path, pair):
    other = node_keys.create_pair(tmp_path / "other.key", tmp_path / "other.pub", "ward7")
    assert node_keys.comparable(other) != node_keys.comparable(pair[2])


def test_openssh_agrees(pair):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen; it comes with openssh-client")
    said = subprocess.run(["ssh-keygen", "-y", "-f", pair[0]], capture_output=True, text=True, check=True).stdout
    assert node_keys.comparable(said) == node_keys.read_public(pair[1])


PEM_OF_ED25519 = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----"""
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBm/RAlphM3+hUG6wWfcO5bIUIaqMLa2ywxcOK1wMWbh somebody"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", "the public key is b'', which is neither"),
        (b"", "which is neither a public key as OpenSSH writes it"),
        ("garbage", "the public key is b'garbage', which is neither"),
        (b"\xff\x00", "which is neither"),
        ("ecdsa-sha2-nistp384 AAAA ward7", "take the site's file site.pub"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "which is neither"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA", "which is neither"),
        (ED25519, "is of a kind that Flower does not take, it takes ECDSA on NIST curves"),
        (PEM_OF_ED25519, "is of a kind that Flower does not take"),
    ],
)
def test_garbage_is_a_sentence(key, expected):
    with pytest.raises(NodeKeyError) as caught:
        node_keys.comparable(key)
    assert expected in str(caught.value)


def test_half_a_key_is_a_sentence(pair):
    private, _, line = pair
    for length in range(0, len(line) - len(" ward7"), 7):
        with pytest.raises(NodeKeyError):
            node_keys.comparable(line[:length])
    private.write_bytes(private.read_bytes()[:200])
    with pytest.raises(NodeKeyError, match="is not a private key as OpenSSH writes it, without a passphrase"):
        node_keys.public_of(private)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(NodeKeyError, match=r"site\.key is not there; restore it from your backup"):
        node_keys.public_of(tmp_path / "site.key")
    with pytest.raises(NodeKeyError, match=r"a\.pub is not there"):
        node_keys.read_public(tmp_path / "a.pub")
