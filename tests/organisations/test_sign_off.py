"""What a site remembers of its node's connection; that a server lets the next node in at once is in test_served."""

import socket

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.superlink import free_port

from fedrl.organisations import certificates, sign_off
from fedrl.organisations import site as sites
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.node_keys import create_pair


@pytest.fixture
def site(tmp_path):
    """Nothing listens at its server's address."""
    authority = AuthorityFiles(tmp_path / "ca")
    authority.home.mkdir(mode=0o700)
    certificates.create_authority(authority, "wards")
    home = tmp_path / "a"
    (home / "state").mkdir(parents=True)
    (home / "site.toml").write_text(
        f'site = "a"\nserver = "127.0.0.1:{free_port()}"\nclients = 1\nenvironment = "CartPole-v1"\n'
    )
    made = sites.read(home)
    made.files.ca.write_bytes(authority.certificate.read_bytes())
    create_pair(made.files.key, made.files.public_key, "a")
    return made


def test_the_newest_number_of_a_log():
    log = "INFO : SuperNode ID: 17\nINFO : \nINFO : SuperNode ID: 18446744073709551615\nSuperNode terminated"
    assert sign_off.number_in(log) == 18446744073709551615
    assert sign_off.number_in("Starting Flower SuperNode") is None


def test_nothing_to_sign_off(site):
    sign_off.close(site)
    assert list(site.files.state.iterdir()) == []


def test_a_server_that_cannot_be_asked_is_asked_the_next_time(site):
    sign_off.remember(site.files, 17)
    sign_off.close(site)
    assert (site.files.state / "node").read_text() == f"17 {socket.gethostname()}\n"


def test_a_copy_of_the_folder_signs_nobody_off(site, monkeypatch):
    sign_off.remember(site.files, 17)
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    sign_off.close(site)
    assert not (site.files.state / "node").exists()
