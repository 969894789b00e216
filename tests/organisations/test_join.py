"""What `join` says before it connects, and of programs that end; they are small ones that stand in for its own."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from rich.console import Console
from support.superlink import free_port, until

from fedrl.organisations import certificates, init, join, versions
from fedrl.organisations import site as sites
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.events import READY
from fedrl.organisations.folders import FolderError
from fedrl.organisations.join import NODE, TASKS, WORKER, JoinError, Member
from fedrl.organisations.layout import SiteFiles
from fedrl.organisations.processes import Children
from fedrl.organisations.tables import FileError

LIBTPU = "libtpu.so: cannot open shared object file"


@pytest.fixture
def files(tmp_path) -> SiteFiles:
    init.create(tmp_path / "wards", ["a"], f"127.0.0.1:{free_port()}")
    return SiteFiles(tmp_path / "wards/a")


@pytest.fixture
def member(files) -> Iterator[Member]:
    console = Console(file=io.StringIO(), width=80)
    with Children(files.home, files.logs) as children:
        yield Member(sites.read(files.home), children, console)


def said(member: Member) -> list[str]:
    return member.console.file.getvalue().splitlines()


def end(member: Member, name: str, source: str) -> None:
    """A program called `name` that does this."""
    member.children.start(name, [sys.executable, "-c", f"import os, sys, time; {source}"], {})
    until(lambda: not member.children.running(name), 30)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_other_versions_than_agreed_are_refused(files, package):
    number = versions.installed()[package]
    replace(files.agreement, f'{package} = "{number}"', f'{package} = "0.0.1"')
    with pytest.raises(
        FileError, match=rf"\[versions\] needs {package} 0\.0\.1 \(here: {number}\); pip install '{package}=="
    ):
        join.join(files.home)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda files: files.ca.unlink(), "dates of ca.crt: .*ca.crt is not there; "),
        (lambda files: files.ca.write_text("\n"), "dates of ca.crt: .*ca.crt is not a certificate in PEM form; "),
        (
            lambda files: certificates.create_authority(AuthorityFiles(files.home), "wards", days=-1),
            "dates of ca.crt: it expired on .*; ask the operator for the federation's present ca.crt",
        ),
    ],
    ids=["missing", "empty", "expired"],
)
def test_an_authority_that_cannot_be_used(files, change, words):
    """Flower's node would end with its own words, again and again."""
    change(files)
    with pytest.raises(JoinError, match=words):
        join.prepare(files)


@pytest.mark.parametrize("name", ["state", "logs", "memory"])
def test_a_folder_that_cannot_be_written(files, name):
    (files.home / name).write_text("a file")
    with pytest.raises(FolderError, match=rf"{name} cannot be written to \(Not a directory\); make it a folder that "):
        join.prepare(files)


def test_another_python_is_not(files):
    replace(files.agreement, 'python = "3.', 'python = "2.')
    assert join.prepare(files).name == "a"


def test_a_worker_ends_with_its_whole_sentence(files, member):
    words = " ".join(f"word{number}" for number in range(200))
    end(
        member,
        WORKER,
        f"print('fedrl: {words}', file=sys.stderr); print('a late warning', file=sys.stderr); sys.exit(2)",
    )
    with pytest.raises(JoinError) as told:
        member._refuse_dead_worker()
    assert str(told.value) == words
    with pytest.raises(JoinError) as told:
        member._died(WORKER)
    assert str(told.value) == words


def test_without_spaces_the_worker_says_what_check_says(files):
    text = files.agreement.read_text()
    before, _, rest = text.partition("[spaces.observations]")
    files.agreement.write_text(before + rest[rest.index("[rules]") :])
    command = [sys.executable, "-P", "-m", "fedrl.organisations.worker", str(files.home)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        "fedrl: federation.toml has no [spaces]; `fedrl federation check` in a site's folder prints those of its environment"
    )


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        (WORKER, f"print('{LIBTPU}', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)",
         "the worker was killed by signal 9 (by somebody, or because memory ran out); starting it again"),
        (NODE, f"print('{LIBTPU}', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)",
         "the node was killed by signal 11; starting it again"),
        (TASKS, "print('no more room', file=sys.stderr); sys.exit(7)",
         "the program for the node's tasks ended with exit code 7 (the last line of its log: no more room); starting it "
         "again"),
    ],
)  # fmt: skip
def test_how_a_program_ended(member, name, source, words):
    """Of one that was killed no old line of its log is quoted."""
    end(member, name, source)
    member._died(name)
    assert said(member) == [words]


def test_a_worker_that_is_killed_before_it_is_ready(files, member):
    end(member, WORKER, f"print('{LIBTPU}', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)")
    with pytest.raises(JoinError) as told:
        member._refuse_dead_worker()
    assert str(told.value) == (
        "the worker was killed by signal 9 (by somebody, or because memory ran out) before it was ready; "
        f"{files.logs / 'worker.log'} says more"
    )


def test_a_slow_start_says_where_to_look(files, member, monkeypatch):
    monkeypatch.setattr(join, "HINT", 0.2)
    source = f"import time; time.sleep(1); print({READY!r}, flush=True); time.sleep(60)"
    child = member.children.start(WORKER, [sys.executable, "-c", source], {}, events=True)
    Thread(target=join._listen, args=(child, member.events), daemon=True).start()
    member._await_worker()
    assert said(member) == [f"still starting; to see what takes so long: fedrl federation check {files.home}"]


def test_which_of_the_programs_died_is_said(member, monkeypatch):
    """Not always the node."""
    monkeypatch.setattr(member, "_start_node", lambda: None)
    for name in (WORKER, NODE):
        member.children.start(name, [sys.executable, "-c", "import time; time.sleep(60)"], {})
    end(member, TASKS, "sys.exit(1)")
    assert member._look() is False
    assert said(member)[0].startswith("the program for the node's tasks ended with exit code 1 ")


def test_a_server_that_once_was_there_is_waited_for(member, monkeypatch):
    """Whatever is wrong on the way to it, such as a name that cannot be looked up for a while."""
    member.site = member.site._replace(server="nowhere.invalid:8443")
    with pytest.raises(JoinError, match=r"^name of the server: no address is known for nowhere\.invalid \("):
        member._check_link()
    member.was_connected = True
    member._check_link()
    assert said(member)[0].startswith("no address is known for nowhere.invalid (")
    assert said(member)[0].endswith("; waiting for it")
