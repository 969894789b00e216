"""Only this user on this machine can sign."""

import stat

import pytest

from fedrl.cache_folder import config_folder
from fedrl.records import signing


@pytest.fixture(autouse=True)
def settings(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))


def test_the_secret_is_made_once_and_is_private():
    assert not signing.is_own(b"data", "00")
    signature = signing.sign(b"data")
    assert signing.sign(b"data") == signature
    assert signing.is_own(b"data", signature)
    assert not signing.is_own(b"date", signature)
    (file,) = config_folder().iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_users_signature_is_not_ours(monkeypatch, tmp_path):
    signature = signing.sign(b"data")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "theirs"))
    assert not signing.is_own(b"data", signature)
    assert signing.sign(b"data") != signature


@pytest.mark.parametrize("spoil", [lambda file: file.chmod(0o644), lambda file: file.write_bytes(b"short")])
def test_a_secret_that_others_may_know_is_replaced(spoil):
    signature = signing.sign(b"data")
    spoil(config_folder() / "secret")
    assert not signing.is_own(b"data", signature)
    assert signing.sign(b"data") != signature
    assert stat.S_IMODE((config_folder() / "secret").stat().st_mode) == 0o600
