"""The command line of `fedrl federation …`: help, folders of the wrong kind, exit codes, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.command_line import call, said
from support.superlink import free_port, until

from fedrl.cli.interrupts import interrupts_afterwards
from fedrl.organisations import init

COMMANDS = ("init", "serve", "join", "check", "status")
FOREGROUND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from fedrl.cli import main; main()"
)


@pytest.fixture
def wards(tmp_path) -> Path:
    init.create(tmp_path / "wards", ["a", "b"], f"127.0.0.1:{free_port()}")
    return tmp_path / "wards"


def test_without_a_command_the_three_steps_are_shown(capsys):
    text = said(capsys, "federation")
    assert all(f"fedrl federation {name} wards" in text for name in ("init", "serve", "join"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(capsys, command):
    assert f"fedrl federation {command} " in said(capsys, "federation", command, "--help").replace("\n", " ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_must_be_named(capsys, command):
    text = said(capsys, "federation", command, code=2)
    assert text.startswith("fedrl: missing argument 'DIR")
    assert f"`fedrl federation {command} --help` shows what it takes" in text


@pytest.mark.parametrize("command", ["serve", "join", "check", "status"])
@pytest.mark.parametrize(("name", "words"), [("nowhere", "does not exist"), ("a_file", "is a file")])
def test_a_folder_that_is_none(capsys, tmp_path, command, name, words):
    (tmp_path / "a_file").touch()
    text = said(capsys, "federation", command, tmp_path / name, code=2)
    assert text == (
        f"fedrl: {tmp_path / name} {words}; pass a folder that `fedrl federation init` made: the server's, or a site's\n"
    )


OF_A_SITE = (
    "{0}/a is the folder of a site, and this is for the server's; ask its operator, or take part: fedrl federation join "
    "{0}/a"
)
OF_THE_SERVER = (
    "{0}/server is the folder of the server, and this is for a site's; start the server with: fedrl federation serve "
    "{0}/server"
)
INSIDE = "pass one of its folders: {0}/server, {0}/a, {0}/b"
NO_SERVER = "is not the folder of a server: it has no server.toml"


@pytest.mark.parametrize(
    ("command", "folder", "sentence"),
    [
        ("serve", "a", OF_A_SITE),
        ("status", "a", OF_A_SITE),
        ("join", "server", OF_THE_SERVER),
        ("serve", "", f"{{0}} {NO_SERVER}; {INSIDE}"),
        ("join", "", f"{{0}} is not the folder of a site: it has no site.toml; {INSIDE}"),
        ("check", "", f"{{0}} has neither server.toml nor site.toml; {INSIDE}"),
        ("check", "ca", "{0}/ca has neither server.toml nor site.toml; pass one that `fedrl federation init` made"),
        ("status", "ca", f"{{0}}/ca {NO_SERVER}; pass one that `fedrl federation init` made"),
    ],
)
def test_a_folder_of_the_wrong_kind(capsys, wards, command, folder, sentence):
    text = said(capsys, "federation", command, wards / folder, code=2)
    assert text == f"fedrl: {sentence.format(wards)}\n"


def test_of_forty_sites_five_folders_are_named(capsys, tmp_path):
    init.create(tmp_path / "wards", [f"s{number}" for number in range(40)], "localhost:8443")
    text = said(capsys, "federation", "check", tmp_path / "wards", code=2)
    assert text.endswith(f", {tmp_path}/wards/s11 or one of 36 others\n")


@pytest.mark.parametrize("name", ["federation.toml", "server.toml"])
def test_a_server_without_a_file(capsys, wards, name):
    (wards / "server" / name).unlink()
    text = said(capsys, "federation", "serve", wards / "server", code=2)
    assert text.startswith(f"fedrl: {wards}/server/{name} is not there; ")


@pytest.mark.parametrize("name", ["federation.toml", "site.toml", "secret", "site.key"])
def test_a_site_without_a_file(capsys, wards, name):
    (wards / "a" / name).unlink()
    text = said(capsys, "federation", "join", wards / "a", code=2)
    assert text.startswith(f"fedrl: {wards}/a/{name} is not there; ")


@pytest.mark.parametrize("kind", ["server", "a"])
def test_check_in_json_is_one_object_and_its_exit_code_says_the_same(capsys, wards, kind):
    (wards / kind / "federation.toml").write_text("rounds = 1")
    assert call("federation", "check", wards / kind, "--json") == 1
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert found["ok"] is False
    assert {item["item"] for item in found["items"] if item["result"] == "fail"} >= {"federation.toml"}
    assert all(set(item) == {"item", "result", "found", "do"} for item in found["items"])


def test_nothing_has_been_played_yet(capsys, wards):
    text = said(capsys, "federation", "status", wards / "server")
    assert text == f"nothing has been played here yet; start it with: fedrl federation serve {wards}/server\n"
    assert json.loads(said(capsys, "federation", "status", wards / "server", "--json")) == {
        "state": "never played", "running": False,
    }  # fmt: skip


@pytest.fixture
def in_the_foreground():
    """As in a terminal, whatever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_ctrl_c_while_modules_are_imported_is_kept(in_the_foreground):
    reached = []

    def load() -> None:
        with interrupts_afterwards():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        load()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_background_job_stays_deaf():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_afterwards():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_site_and_all_that_it_has_started(wards):
    """While it waits for a server that has not come; what it said last is how to go on."""
    command = [sys.executable, "-P", "-c", FOREGROUND, "federation", "join", str(wards / "a")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as site:
        lines = iter(site.stderr.readline, "")
        assert next(line for line in lines if "refuses connections; waiting for it" in line)
        children = Path(f"/proc/{site.pid}/task/{site.pid}/children")
        until(lambda: len(children.read_text().split()) >= 4, 60)  # the watcher, the worker, the node and its tasks
        started = children.read_text().split()
        site.send_signal(signal.SIGINT)
        assert site.wait(60) == 130
        assert [line for line in lines][-1] == f"stopped; go on with: fedrl federation join {wards}/a\n"
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 10)
