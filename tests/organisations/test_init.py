"""`fedrl federation init`: all folders or none, private files that are private, and files that work."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.superlink import until

from fedrl.organisations import agreement as agreements
from fedrl.organisations import certificates, init, node_keys, parts, roster, secret, server_settings, versions
from fedrl.organisations import site as sites
from fedrl.organisations.addresses import Address
from fedrl.organisations.certificates import CertificateError
from fedrl.organisations.layout import ServerFiles, SiteFiles
from fedrl.organisations.tables import FileError

PRIVATE = {"ca/ca.key", "server/server.key", "a/site.key", "a/secret", "b/site.key", "b/secret"}
PUBLIC = {
    "ca/ca.crt", "server/server.crt", "server/ca.crt", "server/federation.toml", "server/server.toml", "server/sites/a.pub",
    "server/sites/b.pub",
} | {f"{site}/{name}" for site in "ab" for name in ("ca.crt", "federation.toml", "site.toml", "site.pub")}  # fmt: skip


@pytest.fixture
def wards(tmp_path) -> Path:
    init.create(tmp_path / "wards", ["a", "b:2"], "fed.example.org:8443")
    return tmp_path / "wards"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_written_and_who_may_read_it(tmp_path, umask):
    before = os.umask(umask)
    try:
        init.create(tmp_path / "wards", ["a", "b:2"], "fed.example.org:8443")
    finally:
        os.umask(before)
    found = everything(tmp_path / "wards")
    assert set(found) == PRIVATE | PUBLIC
    assert {mode(tmp_path / "wards" / name) for name in PRIVATE} == {0o600}
    assert {mode(tmp_path / "wards" / name) for name in PUBLIC} == {0o644}
    folders = [path for path in (tmp_path / "wards").rglob("*") if path.is_dir()]
    assert {mode(folder) for folder in (*folders, tmp_path / "wards")} == {0o700}
    assert os.listdir(tmp_path) == ["wards"]


def test_only_the_authoritys_folder_has_its_key(wards):
    """Nor does anybody have another's secret, and no file with a private key is public."""
    found = everything(wards)
    assert len({found[name] for name in PRIVATE}) == len(PRIVATE)
    assert all(b"PRIVATE" not in found[name] for name in PUBLIC)
    assert len({found[name] for name in found if name.endswith("ca.crt")}) == 1


def test_the_files_work_together(wards):
    server = ServerFiles(wards / "server")
    agreed = agreements.read(server.agreement)
    assert server_settings.read(server) == (Address("fed.example.org", 8443), Address("0.0.0.0", 8443), True)
    assert agreed.versions == versions.installed()
    keys = roster.read(server.site_keys, agreed)
    for name, clients in (("a", [0]), ("b", [1, 2])):
        site = sites.read(wards / name)
        sites.check_membership(site, agreed)
        assert agreements.read(site.files.agreement).digest == agreed.digest
        assert list(agreed.clients_of(name)) == clients
        assert keys[node_keys.comparable(node_keys.public_of(site.files.key))] == name
        assert len(secret.read(site).secret) == secret.LENGTH
    certificate = certificates.read(server.certificate)
    assert certificates.is_signed_by(certificate, certificates.read(SiteFiles(wards / "a").ca))
    assert certificates.is_for_host(certificate, "fed.example.org")
    assert certificates.is_for_key(certificate, server.key)
    built = parts.of(agreed)
    parts.check(built.method(built.federation))


def test_a_named_environment_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_desk.py").write_text(
        "import gymnasium as gym\ndef make(i):\n    return gym.make('FrozenLake-v1')\n"
    )
    made = init.create(Path("wards"), ["a"], "localhost:8443", environment="own_desk:make")
    agreed = agreements.read(tmp_path / "wards/server/federation.toml")
    assert (made.note, agreed.spaces["observations"]["n"], agreed.max_episode_steps) == ("", 16, 100)
    assert sites.read(tmp_path / "wards/a").environment == "own_desk:make"
    assert made.listen == ("127.0.0.1", 8443)
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("environment", ["nowhere_at_all:make", "NoSuch-v0", "json:no_such", "json:loads"])
def test_an_environment_that_is_only_at_the_sites(tmp_path, environment):
    """CartPole's spaces stand in for it, and it is said why."""
    made = init.create(tmp_path / "wards", ["a"], "localhost:8443", environment=environment)
    assert made.note.startswith(f"{environment} cannot be opened here (")
    assert "\n" not in made.note
    assert sites.read(tmp_path / "wards/a").environment == environment
    assert agreements.read(tmp_path / "wards/server/federation.toml").spaces["actions"]["n"] == 2


WRONG = [
    ({"sites": [""]}, "--sites: '' cannot name a site; begin with a letter or digit"),
    ({"sites": ["server"]}, "--sites: 'server' cannot name a site;"),
    ({"sites": ["Ca"]}, "--sites: 'Ca' cannot name a site;"),
    ({"sites": ["../a"]}, "--sites: '../a' cannot name a site;"),
    ({"sites": ["a", "A"]}, "--sites: 'A' is the name of a second site ('a' is there, and capitals do not count);"),
    ({"sites": ["a:0"]}, "--sites has 'a:0', expected a number of clients after the colon, 10000 at most: --sites a:3"),
    ({"sites": ["a:"]}, "--sites has 'a:', expected a number of clients after the colon"),
    ({"sites": ["a:x"]}, "--sites has 'a:x', expected a number of clients after the colon"),
    ({"sites": ["a:-1"]}, "--sites has 'a:-1', expected a number of clients after the colon"),
    ({"sites": ["a:1.0"]}, "--sites has 'a:1.0', expected a number of clients after the colon"),
    ({"sites": ["a:10001"]}, "--sites has 'a:10001', expected a number of clients after the colon"),
    ({"sites": ["a:" + "9" * 5000]}, "expected a number of clients after the colon, 10000 at most"),
    ({"address": "fed.example.org"}, "--address is 'fed.example.org', expected HOST:PORT such as "),
    ({"address": "0.0.0.0:8443"}, "--address is '0.0.0.0:8443', to which no site can connect; "),
    ({"listen": "fed.example.org:8443"}, "--listen is 'fed.example.org:8443', expected an IP address of this machine"),
]


@pytest.mark.parametrize(("change", "expected"), WRONG)
def test_a_mistake_is_a_sentence_and_nothing_is_written(tmp_path, change, expected):
    with pytest.raises(FileError) as caught:
        init.create(tmp_path / "wards", **{"sites": ["a"], "address": "localhost:8443"} | change)
    assert expected in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("folder", ["/proc/wards", "file/wards"])
def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=f"{folder} cannot be made .*; choose a folder where you may write"):
        init.create(Path(folder), ["a"], "127.0.0.1:8443")


def test_a_folder_that_is_there_is_left_alone(wards, tmp_path):
    before = everything(wards)
    with pytest.raises(
        FileError, match="is a federation already; choose another folder, or add a site with --add SITE"
    ):
        init.create(wards, ["a"], "localhost:8443")
    with pytest.raises(FileError, match=r"server is not empty; choose another name or an empty folder"):
        init.create(wards / "server", ["a"], "localhost:8443")
    with pytest.raises(FileError, match=r"server\.toml is a file; choose another name or move it away"):
        init.create(wards / "server/server.toml", ["a"], "localhost:8443")
    assert everything(wards) == before
    (tmp_path / "empty").mkdir()
    init.create(tmp_path / "empty", ["a"], "localhost:8443")
    assert (tmp_path / "empty/a/site.key").exists()


def test_the_folder_one_is_in_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (".", "/", "new\nline"):
        with pytest.raises(FileError, match="cannot be the folder; give the name of a new one, such as wards"):
            init.create(Path(name), ["a"], "localhost:8443")


def test_an_error_on_the_way_leaves_nothing(tmp_path):
    """federation.toml, which comes after both certificates, is larger than this process may write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            init.create(tmp_path / "deep/wards", ["a", "b"], "localhost:8443")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path / "deep") == []


def test_killed_in_the_middle_it_leaves_no_federation(tmp_path):
    program = (
        "import sys; from pathlib import Path; from fedrl.organisations import init; "
        "init.create(Path(sys.argv[1]), [f's{i}' for i in range(2000)], 'localhost:8443')"
    )
    process = subprocess.Popen([sys.executable, "-P", "-c", program, str(tmp_path / "wards")])
    try:
        until(lambda: any(tmp_path.glob(".wards.*/s0/site.key")) or process.poll() is not None, 60)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    left = os.listdir(tmp_path)
    assert len(left) == 1
    assert left[0].startswith(".wards.")
    assert mode(tmp_path / left[0]) == 0o700
    init.create(tmp_path / "wards", ["a"], "localhost:8443")  # nothing is in its way


def test_a_site_is_added(wards):
    agreement = wards / "server/federation.toml"
    agreement.write_text(agreement.read_text().replace("b = 2", "b = 2\nc = 3"))
    before = everything(wards)
    added = init.add(wards, "c")
    after = everything(wards)
    assert (added.is_new, added.revoked) == (True, None)
    assert {name: after[name] for name in before} == before
    assert sites.read(wards / "c").clients == 3
    sites.check_membership(sites.read(wards / "c"), agreements.read(agreement))
    assert (wards / "c/site.pub").read_bytes() == (wards / "server/sites/c.pub").read_bytes()
    assert {mode(wards / "c" / name) for name in ("site.key", "secret")} == {0o600}
    assert mode(wards / "c") == 0o700


def test_a_key_is_replaced_and_the_rest_of_the_site_stays(wards):
    agreed = agreements.read(wards / "server/federation.toml")
    (wards / "a/site.toml").write_text((wards / "a/site.toml").read_text() + "# mine\n")
    before = everything(wards)
    added = init.add(wards, "a")
    after = everything(wards)
    assert (added.is_new, added.revoked) == (False, wards / "server/sites/revoked/a-1.pub")
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"a/site.key", "a/site.pub", "server/sites/a.pub", "server/sites/revoked/a-1.pub"}
    assert after["server/sites/revoked/a-1.pub"] == before["server/sites/a.pub"]
    keys = roster.read(wards / "server/sites", agreed)
    assert keys[node_keys.comparable(after["a/site.pub"])] == "a"
    assert node_keys.comparable(before["a/site.pub"]) not in keys
    shutil.rmtree(wards / "a")  # handed over; the next one is a folder of its own
    again = init.add(wards, "a")
    assert (again.is_new, again.revoked) == (True, wards / "server/sites/revoked/a-2.pub")
    assert again.revoked.read_bytes() == after["a/site.pub"]


def test_a_key_is_not_revoked_before_there_is_a_new_one(wards):
    (wards / "server/ca.crt").unlink()
    before = everything(wards / "server")
    with pytest.raises(FileNotFoundError):
        init.add(wards, "a")
    assert everything(wards / "server") == before


@pytest.mark.parametrize("name", ["c", "A", "server", ""])
def test_only_a_site_of_the_agreement_is_added(wards, name):
    before = everything(wards)
    with pytest.raises(FileError, match=f"has the sites a, b, not {name!r}; add it at the end of"):
        init.add(wards, name)
    assert everything(wards) == before


def test_nothing_is_added_where_no_federation_is(tmp_path):
    for job in (lambda: init.add(tmp_path, "a"), lambda: init.renew(tmp_path)):
        with pytest.raises(
            FileError, match=f"so {tmp_path} is no federation; give the folder that `fedrl federation init"
        ):
            job()


def test_the_servers_certificate_is_renewed(wards):
    settings = wards / "server/server.toml"
    settings.write_text(settings.read_text().replace("fed.example.org", "new.example.org"))
    before = everything(wards)
    until_when = init.renew(wards, days=9)
    after = everything(wards)
    assert {name for name in after if after[name] != before[name]} == {"server/server.crt", "server/server.key"}
    assert abs(until_when - datetime.now(UTC) - timedelta(days=9)) < timedelta(minutes=1)
    certificate = certificates.read(wards / "server/server.crt")
    assert certificates.is_for_host(certificate, "new.example.org")
    assert certificates.is_signed_by(certificate, certificates.read(wards / "a/ca.crt"))
    assert mode(wards / "server/server.key") == 0o600


def test_without_the_authoritys_key_nothing_is_renewed(wards):
    (wards / "ca/ca.key").unlink()
    before = everything(wards)
    with pytest.raises(CertificateError, match=r"ca\.key is not there; put it back from where you keep it"):
        init.renew(wards)
    assert everything(wards) == before
