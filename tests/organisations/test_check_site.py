"""What `check` finds in the folder of a site that `init` wrote, on its way to the server, and in its environment."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.command_line import call
from support.editors import CHANGES, edited
from support.superlink import free_port
from support.tls_server import answering

from fedrl.organisations import certificates, check, check_environment, check_link, init, versions
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.check_items import FAIL, OK, SKIPPED, WARN, Item
from fedrl.organisations.layout import ServerFiles

BEFORE = [
    "files", "mode of site.key", "mode of secret", "site.toml", "federation.toml", "place in the federation",
    "key of this site", "secret", "dates of ca.crt", *check_link.NAMES, "versions", "programs of Flower",
]  # fmt: skip
AFTER = [*check_environment.NAMES, "disk", "running"]


@pytest.fixture
def home(tmp_path) -> Path:
    init.create(tmp_path / "Häuser & Wärter", ["a", "b:2"], f"127.0.0.1:{free_port()}")
    return tmp_path / "Häuser & Wärter/a"


@contextmanager
def serving(home: Path, **how) -> Iterator[None]:
    """A server that answers as the proxy does, at the address in site.toml."""
    with answering(ServerFiles(home.parent / "server"), **how) as port:
        text = (home / "site.toml").read_text()
        lines = [f'server = "127.0.0.1:{port}"' if line.startswith("server =") else line for line in text.splitlines()]
        (home / "site.toml").write_text("\n".join(lines))
        yield


def outside(home: Path) -> dict[str, Item]:
    """All but the environment, which takes a process of its own and seconds."""
    found = []
    for item in check.items(home):
        found.append(item)
        if item.item == BEFORE[-1]:
            break
    assert all(item.do or "; " in item.found for item in found if item.result in (FAIL, WARN)), found
    return {item.item: item for item in found}


def odd(found: dict[str, Item]) -> dict[str, str]:
    return {name: item.result for name, item in found.items() if item.result in (FAIL, WARN)}


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_site_that_is_fine(home, capsys):
    with serving(home):
        assert call("federation", "check", home, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["item"] for item in found["items"]] == [*BEFORE, *AFTER]
    assert {item["result"] for item in found["items"]} == {OK}
    assert found["ok"] is True


def test_a_missing_module_and_a_space_that_differs(home, capsys):
    """Each is a line of its own, and the command says how many there are."""
    (home / "ward.py").write_text("import gymnasium as gym\ndef make():\n    return gym.make('CliffWalking-v1')\n")
    replace(home / "site.toml", '"CartPole-v1"', '"ward:make"')
    with serving(home):
        assert call("federation", "check", home) == 1
        lines = capsys.readouterr().out.splitlines()
        wrong = [line for line in lines if line.startswith("FAIL")]
        assert len(wrong) == 1
        assert wrong[0] == (
            "FAIL  spaces: observations: type is discrete here and box in federation.toml; actions: n is 4 here and 2 in "
            "federation.toml"
        )
        assert lines[-1].endswith(" of 25 checks failed")
        replace(home / "site.toml", "ward:make", "nowhere_ward:make")
        assert call("federation", "check", home) == 1
        lines = capsys.readouterr().out.splitlines()
    wrong = [line for line in lines if line.startswith("FAIL")]
    assert len(wrong) == 1
    assert wrong[0].startswith(
        "FAIL  import: environment = 'nowhere_ward:make': there is no module 'nowhere_ward' (looked in "
    )
    assert wrong[0].endswith("install it there, or add its folder to `path` in site.toml")


def test_an_expired_certificate(home):
    certificates.issue_server(AuthorityFiles(home.parent / "ca"), ServerFiles(home.parent / "server"), "127.0.0.1", -1)
    with serving(home):
        found = outside(home)
    assert odd(found) == {"TLS": FAIL}
    assert found["TLS"].found == "by this machine's clock, the certificate of 127.0.0.1 has expired"


def test_a_wrong_authority(home, tmp_path):
    init.create(tmp_path / "other", ["a"], "127.0.0.1:8443")
    shutil.copy(tmp_path / "other/a/ca.crt", home / "ca.crt")
    with serving(home):
        found = outside(home)
    assert odd(found) == {"TLS": FAIL}
    assert found["TLS"].found == f"the certificate of 127.0.0.1 was not signed by the authority in {home / 'ca.crt'}"
    assert found["clock"].result == SKIPPED


@pytest.mark.parametrize(("seconds", "words"), [(300, "behind the server"), (-300, "ahead of the server")])
def test_a_clock_five_minutes_off(home, seconds, words):
    with serving(home, seconds=seconds):
        found = outside(home)
    assert odd(found) == {"clock": FAIL}
    assert words in found["clock"].found
    assert found["clock"].do.startswith("set this machine's clock (timedatectl set-ntp true)")


def test_a_server_that_is_not_there(home):
    found = outside(home)
    assert odd(found) == {"port of the server": FAIL}
    assert found["port of the server"].found.endswith(" refuses connections")


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_another_version(home, package):
    number = versions.installed()[package]
    replace(home / "federation.toml", f'{package} = "{number}"', f'{package} = "0.0.1"')
    with serving(home):
        found = outside(home)
    assert odd(found) == {f"version of {package}": FAIL}
    assert found[f"version of {package}"] == Item(
        f"version of {package}", FAIL, f"{number} here, 0.0.1 in federation.toml", f"pip install '{package}==0.0.1'"
    )


def test_a_package_that_is_not_installed(home, monkeypatch):
    monkeypatch.setattr(versions, "PACKAGES", (*versions.PACKAGES, "no_such_package"))
    monkeypatch.setattr("fedrl.organisations.check_items.PACKAGES", versions.PACKAGES)
    found = outside(home)
    assert found["version of no_such_package"].found == "not installed"


@pytest.mark.parametrize("name", ["site.toml", "federation.toml", "ca.crt", "site.key", "site.pub", "secret"])
def test_a_folder_that_was_copied_by_half(home, name):
    (home / name).unlink()
    found = outside(home)
    assert found["files"].found == f"{home / name} is not there"
    assert found["files"].do == "copy it from the folder that the operator gave you"


def test_files_of_a_key_alone(home):
    """It is a site's folder all the same, with a line for each file that is missing."""
    for path in home.iterdir():
        if path.name != "site.key":
            path.unlink()
    lines = [item.found for item in check.items(home) if item.item == "files"]
    assert sorted(lines) == sorted(
        f"{home / name} is not there" for name in ("federation.toml", "site.toml", "ca.crt", "site.pub", "secret")
    )


@pytest.mark.parametrize("name", ["site.key", "secret"])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_private_file_that_others_can_read(home, name, mode):
    (home / name).chmod(mode)
    item = outside(home)[f"mode of {name}"]
    assert item.found == f"{mode:o}, so other users of this machine can read it"
    assert item.do == f"chmod 600 '{home / name}'"


WRONG = {
    "no such site": (
        ("site.toml", 'site = "a"', 'site = "z"'),
        "place in the federation", FAIL, "says site = 'z', and federation.toml has a, b; correct the name",
    ),
    "other clients": (
        ("site.toml", "clients = 1", "clients = 2"),
        "place in the federation", FAIL, "says clients = 2, and federation.toml gives a 1; make them the same",
    ),
    "no clients": (("site.toml", "clients = 1", "clients = 0"), "site.toml", FAIL, "clients must be from 1 to 10000, got 0"),
    "port 0": (("site.toml", "127.0.0.1:", "127.0.0.1:0"), "site.toml", FAIL, "expected HOST:PORT such as"),
    "all addresses": (("site.toml", "127.0.0.1", "0.0.0.0"), "site.toml", FAIL, "to which no site can connect"),
    "a list": (("site.toml", 'path = ["."]', "path = [3]"), "site.toml", FAIL, "path expects a list of texts, got 3 in it"),
    "a kind": (("site.toml", '"gymnasium"', '"gym"'), "site.toml", FAIL, "kind must be gymnasium, pettingzoo, text, got"),
    "an unknown key": (("site.toml", "clients = 1", "client = 1"), "site.toml", FAIL, "did you mean clients?"),
    "a test's seed": (
        ("site.toml", "clients = 1", "clients = 1\nshared_test_seed = 5"), "secret", WARN, "delete that line",
    ),
    "half a secret": (("secret", "", "zz"), "secret", FAIL, "does not hold 32 bytes as hexadecimal digits"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_a_line(home, case):
    (file, old, new), name, result, words = WRONG[case]
    replace(home / file, old, new)
    item = outside(home)[name]
    assert item.result == result
    assert words in f"{item.found}\n-> {item.do}"


@pytest.mark.parametrize("name", ["site.toml", "federation.toml"])
@pytest.mark.parametrize("content", ["", "\ufeff", "x", "[[", "a = 1\na = 2"])
def test_a_file_that_is_no_such_toml(home, name, content):
    (home / name).write_text(content)
    found = outside(home)
    assert found[name].result == FAIL
    assert found["place in the federation"].result == SKIPPED


def test_a_file_that_is_no_text(home):
    (home / "site.toml").write_bytes(b'site = "\xff"')
    found = outside(home)
    assert "is not text in UTF-8 (invalid start byte at byte 8); save it as UTF-8" in found["site.toml"].found
    assert {found[name].result for name in check_link.NAMES} == {SKIPPED}


@pytest.mark.parametrize("change", CHANGES)
def test_what_editors_and_links_do_changes_nothing(home, change):
    with serving(home):
        before = outside(home)["federation.toml"]
        found = outside(edited(home, ("federation.toml", "site.toml"), change))
    assert odd(found) == {}
    assert found["federation.toml"] == before


def test_an_ipv6_address(tmp_path):
    init.create(tmp_path / "wards", ["a"], f"[::1]:{free_port()}")
    found = outside(tmp_path / "wards/a")
    assert found["name of the server"].result == OK
    assert found["port of the server"].found.startswith("[::1]:")
