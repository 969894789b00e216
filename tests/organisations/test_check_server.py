"""What `check` finds in the folder of a server that `init` wrote: files, certificates, port, programs, versions."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.command_line import call
from support.editors import CHANGES, edited
from support.proxied import needs_nginx
from support.superlink import free_port
from support.tls_server import issue_for_tomorrow

from fedrl.organisations import certificates, check, check_items, init, proxy, versions
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.check_items import FAIL, OK, SKIPPED, WARN, Item
from fedrl.organisations.layout import ServerFiles
from fedrl.records import lock

NAMES = [
    "files", "mode of server.key", "server.toml", "federation.toml", "method", "dates of ca.crt", "dates of server.crt",
    "signer of server.crt", "host in server.crt", "key of server.crt", "key of the authority", "keys of sites", "port",
    "nginx", "versions", "programs of Flower", "disk", "running",
]  # fmt: skip
RENEW = "fedrl federation init DIR --renew, on the machine that has ca.key"


@pytest.fixture
def home(tmp_path) -> Path:
    """A folder that is hard to quote; the key of its authority is not beside it."""
    folder = tmp_path / "Häuser & Wärter"
    init.create(folder, ["a", "b:2"], f"127.0.0.1:{free_port()}")
    (folder / "ca").rename(tmp_path / "apart")
    return folder / "server"


def look(home: Path) -> dict[str, Item]:
    """Every name once; whatever is wrong says what to do."""
    found = list(check.items(home))
    names = [item.item for item in found]
    assert len(set(names)) == len(names)
    assert all(item.do or "; " in item.found for item in found if item.result in (FAIL, WARN)), found
    return {item.item: item for item in found}


def odd(found: dict[str, Item]) -> dict[str, str]:
    return {name: item.result for name, item in found.items() if item.result in (FAIL, WARN)}


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@needs_nginx
def test_a_server_that_is_fine(home, capsys):
    found = look(home)
    assert list(found) == NAMES
    assert {item.result for item in found.values()} == {OK}
    assert found["federation.toml"].found.startswith("Häuser & Wärter: 10 rounds, 3 clients, 2 sites; digest ")
    assert call("federation", "check", home) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[: len(NAMES)]] == [f"ok    {name}" for name in NAMES]
    assert lines[-1] == "nothing failed"


@needs_nginx
@pytest.mark.parametrize("change", CHANGES)
def test_what_editors_and_links_do_changes_nothing(home, change):
    before = look(home)["federation.toml"]
    found = look(edited(home, ("federation.toml", "server.toml"), change))
    assert odd(found) == {}
    assert found["federation.toml"] == before


Change = Callable[[Path], object]
WRONG: dict[str, tuple[Change, str, str, str]] = {  # change -> the line, its result, words
    "a certificate that has expired": (
        lambda home: certificates.issue_server(apart(home), ServerFiles(home), "127.0.0.1", days=-1),
        "dates of server.crt", FAIL, RENEW,
    ),
    "a certificate that will soon expire": (
        lambda home: certificates.issue_server(apart(home), ServerFiles(home), "127.0.0.1", days=10),
        "dates of server.crt", WARN, "it expires in 9 days, on ",
    ),
    "a certificate of tomorrow": (
        lambda home: issue_for_tomorrow(apart(home), ServerFiles(home)),
        "dates of server.crt", FAIL, "set the clock (timedatectl set-ntp true)",
    ),
    "a wrong authority": (
        lambda home: another_authority(home),
        "signer of server.crt", FAIL, "not the authority in ca.crt, which sites trust",
    ),
    "an authority that has expired": (
        lambda home: expired_authority(home), "dates of ca.crt", FAIL, "make a new federation",
    ),
    "another host": (
        lambda home: replace(home / "server.toml", "127.0.0.1", "fed.example.org"),
        "host in server.crt", FAIL, "it names localhost, 127.0.0.1, but sites connect to fed.example.org",
    ),
    "another key": (
        lambda home: certificates.create_authority(AuthorityFiles(home / "sites"), "x")
        or (home / "sites/ca.key").rename(home / "server.key"),
        "key of server.crt", FAIL, "server.key belongs to another certificate",
    ),
    "the authority's key": (
        lambda home: shutil.copy(apart(home).key, home / "ca.key"),
        "key of the authority", WARN, "ca.key is on this machine: who reads it can act as the server",
    ),
    "a method that nobody has": (
        lambda home: replace(home / "federation.toml", '"fedavg"', '"nowhere_method:make"'),
        "method", FAIL, "nowhere_method:make cannot be imported here",
    ),
    "a method that raises": (
        lambda home: replace(home / "federation.toml", "steps = 512", "steps = -3"), "method", FAIL, "-3",
    ),
    "an address of another machine": (
        lambda home: replace(home / "server.toml", 'listen = "127.0.0.1', 'listen = "192.0.2.77'),
        "port", FAIL, "in server.toml, listen on an address of this machine (0.0.0.0 means all)",
    ),
    "another Python": (
        lambda home: replace(home / "federation.toml", 'python = "3', 'python = "2'),
        "version of python", WARN, "fine, but last digits of results may differ",
    ),
    "no versions": (
        lambda home: without_packages(home),
        "versions", WARN, "federation.toml has no [versions]",
    ),
    "a key that others can read": (
        lambda home: (home / "server.key").chmod(0o644), "mode of server.key", FAIL, "-> chmod 600 '",
    ),
    "a site without a key": (
        lambda home: (home / "sites/a.pub").unlink(),
        "key of a", WARN, "is not there, so a cannot connect and is left out of every round",
    ),
    "a key that is none": (
        lambda home: (home / "sites/a.pub").write_text("hello"),
        "key of a", FAIL, "neither a public key as OpenSSH writes it",
    ),
    "two sites with one key": (
        lambda home: shutil.copy(home / "sites/a.pub", home / "sites/b.pub"),
        "key of b", FAIL, "the same as the key of a: each could act for the other",
    ),
    "a key of nobody": (
        lambda home: shutil.copy(home / "sites/a.pub", home / "sites/z.pub"),
        "key of z", WARN, "federation.toml has no such site",
    ),
}  # fmt: skip


def apart(home: Path) -> AuthorityFiles:
    return AuthorityFiles(home.parent.parent / "apart")


def another_authority(home: Path) -> None:
    certificates.create_authority(AuthorityFiles(apart(home).home), "another")
    shutil.copy(apart(home).certificate, home / "ca.crt")


def expired_authority(home: Path) -> None:
    certificates.create_authority(apart(home), "wards", days=-1)
    shutil.copy(apart(home).certificate, home / "ca.crt")


def without_packages(home: Path) -> None:
    lines = (home / "federation.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.split(" = ")[0] not in versions.PACKAGES]
    (home / "federation.toml").write_text("".join(kept))


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_a_line_with_what_to_do(home, case):
    change, name, result, words = WRONG[case]
    change(home)
    item = look(home)[name]
    assert item.result == result
    assert words in f"{item.found}\n-> {item.do}"


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_another_version(home, package):
    number = versions.installed()[package]
    replace(home / "federation.toml", f'{package} = "{number}"', f'{package} = "0.0.1"')
    item = look(home)[f"version of {package}"]
    assert (item.result, item.found, item.do) == (
        FAIL, f"{number} here, 0.0.1 in federation.toml", f"pip install '{package}==0.0.1'",
    )  # fmt: skip


def test_a_port_that_is_taken(home):
    port = int((home / "server.toml").read_text().rpartition("127.0.0.1:")[2].split('"')[0])
    with socket.create_server(("127.0.0.1", port)):
        item = look(home)["port"]
        assert item.result == FAIL
        assert item.found.startswith(f"127.0.0.1:{port} is taken by process {os.getpid()} (")
        assert item.do == "stop it, or write another port in server.toml, in `address` too, and tell the sites"
        held = lock.hold(home)
        lock.sign(home)
        found = look(home)
        held.release()
    assert found["port"].result == OK
    assert "taken by this server itself, which is running" in found["port"].found
    assert found["running"].found == f"yes, as process {os.getpid()}"


@pytest.mark.parametrize("name", ["federation.toml", "server.toml", "ca.crt", "server.crt", "server.key"])
def test_a_folder_that_was_copied_by_half(home, name):
    (home / name).unlink()
    found = look(home)
    assert found["files"].found == f"{home / name} is not there"
    assert found["files"].do == "restore it from your backup, or make a new federation"
    assert all(str(home) not in item.found or item.result == FAIL for item in found.values())


TABLES = {
    "": "has no rounds; add rounds = …, a whole number",
    "rounds = ": "is not TOML: Invalid value (at end of document); correct that line",
    'rounds = "ten"': "rounds expects a whole number, got 'ten'; correct that line",
    "rounds = true": "rounds expects a whole number, got True; correct that line",
    "sites = 3\nrounds = 1": "sites expects a table, got 3; correct that line",
    "rounds = 1\n[sites]": "has no [method]; add one",
    "rounds = 1\nmethod.name = 'fedavg'\n[sites]": "[sites] is empty; name every site and its number of clients",
    "rounds = 1\nmethod.name = 'fedavg'\nsites.a = 0": "clients must be from 1 to 10000, got 0",
    "rounds = 1\nmethod.name = 'fedavg'\nsites.a = 1\nsites.A = 1": "'A' is the name of a second site",
    "rounds = 1\nsites.a = 1\nsites.a = 2": "is not TOML: Cannot overwrite a value",
    "rounds = 1\nmethod.name = 'fedavg'\nsites.'../x' = 1": "'../x' cannot name a site",
    "rounds = 1\nmethod.name = 'fedavg'\nsites.server = 1": "'server' cannot name a site",
}


@pytest.mark.parametrize("text", TABLES)
def test_a_federation_toml_that_is_wrong(home, text):
    (home / "federation.toml").write_text(text)
    found = look(home)
    assert found["federation.toml"].result == FAIL
    assert TABLES[text] in found["federation.toml"].found
    assert found["method"].result == found["keys of sites"].result == SKIPPED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no address; add address = …, text"),
        ('address = "a:1"', "has no listen; add listen"),
        ('address = "127.0.0.1:0"\nlisten = "127.0.0.1:8443"', "address is '127.0.0.1:0', expected HOST:PORT"),
        ('address = "a:8443"\nlisten = "fed.example.org:8443"', "expected an IP address of this machine and a port"),
        ('address = "0.0.0.0:8443"\nlisten = "0.0.0.0:8443"', "to which no site can connect"),
        ("address = 8443\nlisten = 1", "address expects text, got 8443"),
    ],
)
def test_a_server_toml_that_is_wrong(home, text, words):
    (home / "server.toml").write_text(text)
    found = look(home)
    assert found["server.toml"].result == FAIL
    assert words in found["server.toml"].found
    assert found["port"].result == found["host in server.crt"].result == SKIPPED


def test_a_try_on_one_machine_without_nginx(home, tmp_path, monkeypatch):
    monkeypatch.setattr(proxy, "SBIN", str(tmp_path))
    with (home / "server.toml").open("a") as file:
        file.write("proxy = false\n")
    assert look(home)["nginx"][1:] == (
        WARN, "server.toml does without", "delete proxy = false, unless this is a try on one machine"
    )  # fmt: skip


def test_without_nginx_and_flowers_programs(home, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(proxy, "SBIN", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    found = look(home)
    assert found["nginx"].found.startswith(
        "the server needs nginx, which is not installed; install it: apt-get install "
    )
    assert found["programs of Flower"].found.startswith(
        "flower-superlink, flower-superexec, flwr-serverapp, flwr not found"
    )


def test_a_folder_that_cannot_be_written():
    """Nobody can write there, not even root."""
    item = check_items.disk(Path("/proc"))
    assert (item.result, item.do) == (FAIL, "make it writable for this user, or free some space")
    assert item.found.startswith("/proc cannot be written to (")


@pytest.mark.parametrize("name", ["state", "logs", "run"])
def test_a_folder_inside_that_cannot_be_written(home, name):
    (home / name).symlink_to("/proc")
    item = look(home)["disk"]
    assert (item.result, item.found) == (FAIL, f"{home / name} cannot be written to (No such file or directory)")


def test_a_disk_that_is_full(home, monkeypatch):
    for least, result in ((2**60, FAIL), (0, WARN)):
        monkeypatch.setattr(check_items, "LEAST_SPACE", least)
        monkeypatch.setattr(check_items, "LITTLE_SPACE", 2**61)
        assert look(home)["disk"].result == result
