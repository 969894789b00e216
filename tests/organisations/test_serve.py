"""What `serve` refuses before it starts anything."""

import os
import shutil
import socket
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.command_line import said
from support.superlink import free_port
from support.tls_server import issue_for_tomorrow

from fedrl.organisations import certificates, init, proxy, versions
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.layout import ServerFiles
from fedrl.records import lock

HAS_NGINX = shutil.which("nginx") or shutil.which("nginx", path=proxy.SBIN)
needs_nginx = pytest.mark.skipif(not HAS_NGINX, reason="no nginx: apt-get install nginx-light")


@pytest.fixture
def home(tmp_path) -> Path:
    init.create(tmp_path / "wards", ["a"], f"127.0.0.1:{free_port()}")
    return tmp_path / "wards/server"


def refused(capsys, home: Path) -> str:
    """What is said; nothing was started."""
    text = said(capsys, "federation", "serve", home, code=2)
    assert not (home / "logs").exists() or not list((home / "logs").iterdir())
    return text


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_other_versions_than_agreed(home, capsys, package):
    number = versions.installed()[package]
    replace(home / "federation.toml", f'{package} = "{number}"', f'{package} = "0.0.1"')
    text = refused(capsys, home)
    assert (
        f"[versions] needs {package} 0.0.1 (here: {number}); pip install '{package}==0.0.1', or agree on other" in text
    )


@needs_nginx
def test_a_taken_port(home, capsys):
    port = int((home / "server.toml").read_text().rpartition("127.0.0.1:")[2].split('"')[0])
    with socket.create_server(("127.0.0.1", port)):
        text = refused(capsys, home)
    assert f"nobody can listen on 127.0.0.1:{port} (Address already in use by process {os.getpid()} (" in text
    assert f"`fedrl federation check {home}` says what to do" in text


@needs_nginx
@pytest.mark.parametrize("name", ["state", "run"])
def test_a_folder_that_cannot_be_written(home, capsys, name):
    (home / name).write_text("a file")
    assert f"{home / name} cannot be written to (Not a directory); make it a folder that" in refused(capsys, home)


def test_a_folder_in_use(home, capsys):
    held = lock.hold(home)
    lock.sign(home)
    text = refused(capsys, home)
    held.release()
    assert text == f"fedrl: {home} is served already, by process {os.getpid()}; stop that one first\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda it, files: certificates.issue_server(it, files, "127.0.0.1", days=-1),
            "dates of server.crt: it expired on ",
        ),
        (lambda it, files: issue_for_tomorrow(it, files), "dates of server.crt: not valid before "),
        (lambda it, files: files.certificate.write_text(""), "dates of server.crt: "),
        (
            lambda it, files: shutil.copy(it.key, files.key),
            "key of server.crt: server.key belongs to another certificate; ",
        ),
        (lambda it, files: files.key.chmod(0o644), "server.key can be read by others (mode 644); run: chmod 600 "),
    ],
    ids=["expired", "tomorrow", "empty", "another key", "mode"],
)
def test_a_certificate_that_nobody_would_accept(home, capsys, change, words):
    change(AuthorityFiles(home.parent / "ca"), ServerFiles(home))
    assert words in refused(capsys, home)


@pytest.mark.parametrize("line", ["listen = 3", 'listne = "127.0.0.1:8443"', 'listen = "127.0.0.1:0"', ""])
def test_a_server_toml_that_is_wrong(home, capsys, line):
    (home / "server.toml").write_text(f'address = "127.0.0.1:8443"\n{line}\n')
    assert refused(capsys, home).startswith(f"fedrl: {home}/server.toml")
