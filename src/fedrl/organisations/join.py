"""`fedrl federation join`: take part in a federation as a site, until its rounds are done.

Three programs: the worker, which has the site's environments; Flower's node, which connects to the server; and `tasks`,
which hands the worker what the node receives. If one dies it is started again. Nobody connects to this machine.
"""

import math
import secrets
import shlex
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from rich.console import Console

from fedrl.errors import FedRLError
from fedrl.flower import command_line
from fedrl.organisations import agreement as agreements
from fedrl.organisations import (
    check_certificates,
    check_link,
    events,
    folders,
    node_keys,
    ports,
    secret,
    sign_off,
    versions,
)
from fedrl.organisations import site as sites
from fedrl.organisations.check_items import FAIL
from fedrl.organisations.last_words import MISTAKE, how_it_ended, sentence
from fedrl.organisations.layout import HOME_OF_SITE, SiteFiles
from fedrl.organisations.ports import free_port
from fedrl.organisations.private_files import write_private
from fedrl.organisations.processes import Child, Children, terminable, wait_until
from fedrl.organisations.serve import in_use
from fedrl.organisations.site import Site
from fedrl.records.formatting import say

WORKER, NODE, TASKS = "worker", "node", "tasks"
IN_WORDS = {TASKS: "program for the node's tasks"}
PAUSE, BACK_OFF = 0.2, 60.0  # seconds between looks; the longest between two starts
HEALTHY = 120.0  # seconds after which a program that died counts as the first to do so
HINT = 60.0  # seconds after which a start is slow
STARTS, LEAVES = 60.0, 4.0  # seconds in which the node must listen, and that it has to deliver the last answer
SECRET_LENGTH = 32  # bytes
REFUSED, RETRY = 75.0, 5.0  # seconds until a server that does not let the node in never will; between two attempts


class JoinError(FedRLError, ValueError):
    """The site cannot take part; the message says why."""


def join(folder: Path) -> int:
    """Take part until the server says that the run is over: 0."""
    files, console = folders.site(folder.resolve()), Console(stderr=True, highlight=False)
    site = prepare(files)
    with terminable(), in_use(files.home, "joined"), Children(files.home, files.logs) as children:
        member = Member(site, children, console)
        try:
            member.take_part()
        except KeyboardInterrupt:
            say(console, f"stopped; go on with: fedrl federation join {shlex.quote(str(folder))}")
            raise
    say(console, f"the run is over; the policy is {files.policy}" if files.policy.exists() else "the run is over")
    return 0


def prepare(files: SiteFiles) -> Site:
    """Raise a sentence for what would fail later, and make the folders."""
    site, agreement = sites.read(files.home), agreements.read(files.agreement)
    sites.check_membership(site, agreement)
    versions.require(agreement.versions)
    secret.read(site)
    secret.check_mode(files.key)
    node_keys.public_of(files.key)
    authority = check_certificates.dates(files.ca, "ask the operator for the federation's present ca.crt")
    if authority.result == FAIL:
        raise JoinError("; ".join(filter(None, (f"{authority.item}: {authority.found}", authority.do))))
    folders.require_writable(files)
    for made in (files.state, files.logs, files.state / "flower"):
        made.mkdir(mode=0o700, exist_ok=True)
    return site


class Member:
    """Keeps the programs of a site running."""

    def __init__(self, site: Site, children: Children, console: Console):
        self.site, self.files, self.children, self.console = site, site.files, children, console
        self.environment = environment(self.files)
        self.events: SimpleQueue[str] = SimpleQueue()
        self.deaths: dict[str, list[float]] = {WORKER: [], NODE: [], TASKS: []}
        self.refused: float | None = None  # since when the server has not let the node in
        self.number: int | None = None  # of the node that is connected
        self.was_connected = False

    def take_part(self) -> None:
        """Until the server says that the run is over."""
        say(self.console, f"site {self.site.name}: starting its environments …")
        self._start_worker()
        self._await_worker()
        say(self.console, f"connecting to {self.site.server} …")
        self._start_node()
        while not self._look():
            time.sleep(PAUSE)
        time.sleep(LEAVES)

    def _await_worker(self) -> None:
        """Until its environments are open, however long that takes; one that hangs is to be found by whoever watches."""
        hint = time.monotonic() + HINT
        while not self._heard(events.READY):
            self._refuse_dead_worker()
            if time.monotonic() > hint:
                folder, hint = shlex.quote(str(self.files.home)), math.inf
                say(
                    self.console,
                    f"still starting; to see what takes so long: fedrl federation check {folder}",
                    "yellow",
                )
            time.sleep(PAUSE)

    def _look(self) -> bool:
        """Show what is new, and start again what has died; whether the run is over."""
        if self._heard(events.OVER):
            return True
        if not self.children.running(WORKER):
            self._died(WORKER)
            self._start_worker()
        elif dead := [name for name in (NODE, TASKS) if not self.children.running(name)]:
            self._died(dead[0])
            self._start_node()  # also after its tasks: a node waits a minute for those that were lost
        elif self.number is None and (number := sign_off.number_in(self.children.children[NODE].text())) is not None:
            sign_off.remember(self.files, number)
            self.number, self.refused, self.was_connected = number, None, True
        return False

    def _heard(self, event: str) -> bool:
        """Whether the worker has said so; other events are shown."""
        while True:
            try:
                line = self.events.get_nowait()
            except Empty:
                return False
            if line == event:
                return True
            if line not in (events.READY, events.OVER):
                say(self.console, line)

    def _start_worker(self) -> None:
        self.children.stop(WORKER)
        command = [sys.executable, "-P", "-m", "fedrl.organisations.worker", str(self.files.home)]
        child = self.children.start(WORKER, command, self.environment, events=True)
        threading.Thread(target=_listen, args=(child, self.events), daemon=True).start()

    def _start_node(self) -> None:
        self.children.stop(TASKS, NODE)
        self._check_link()
        sign_off.close(self.site)
        self.number = None
        port, own = free_port(), self.files.state / "executor.secret"
        if not own.exists():
            write_private(own, secrets.token_bytes(SECRET_LENGTH))
        self.children.start(NODE, node_command(self.site, port, own), self.environment)
        address = f"127.0.0.1:{port}"
        if not wait_until(
            lambda: ports.trouble("127.0.0.1", port) is not None or not self.children.running(NODE), STARTS
        ):
            raise JoinError(
                f"Flower's node does not start within {STARTS:.0f} s; see {self.children.children[NODE].log}"
            )
        command = [sys.executable, "-P", "-m", "fedrl.organisations.tasks", address, str(own)]
        self.children.start(TASKS, command, self.environment)

    def _check_link(self) -> None:
        """A server that does not answer may come; one that has never been the right one never will."""
        for item in check_link.items(self.site.server, self.files.ca):
            if item.result != FAIL:
                continue
            if item.item != check_link.PORT and not self.was_connected:
                raise JoinError(f"{item.item}: {item.found}; {item.do}")
            say(self.console, f"{item.found}; waiting for it", "yellow")

    def _died(self, name: str) -> None:
        """Why it died, if that cannot be mended by starting it again; otherwise wait, if it dies often."""
        code, child = self.children.code(name), self.children.children[name]
        if name == WORKER and code == MISTAKE:
            raise JoinError(sentence(child))
        if name == NODE and sign_off.REFUSED in child.text():
            return self._refused(child)
        now = time.monotonic()
        self.deaths[name] = [at for at in self.deaths[name] if now - at < HEALTHY] + [now]
        wait = min(BACK_OFF, 2.0 ** (len(self.deaths[name]) - 1) - 1)
        say(
            self.console,
            f"the {IN_WORDS.get(name, name)} {how_it_ended(child)}; starting it again"
            + f" in {wait:.0f} s" * (wait > 0),
            "yellow",
        )
        time.sleep(wait)

    def _refused(self, child: Child) -> None:
        """The server has not let the node in: of a node that was killed unnoticed it hears within a minute."""
        why = (
            f"the server at {self.site.server} does not let site {self.site.name} in: it does not know the key in "
            f"{self.files.public_key.name}, or this site is connected already, from elsewhere"
        )
        if self.refused is None:
            self.refused = time.monotonic()
            say(self.console, f"{why}; trying again for {REFUSED:.0f} s", "yellow")
        elif time.monotonic() - self.refused > REFUSED:
            raise JoinError(
                f"{why}; compare the file with sites/{self.site.name}.pub at the server, which may have been made anew "
                f"({child.log} has Flower's words)"
            )
        time.sleep(RETRY)

    def _refuse_dead_worker(self) -> None:
        if not self.children.running(WORKER):
            child = self.children.children[WORKER]
            if self.children.code(WORKER) == MISTAKE:
                raise JoinError(sentence(child))
            raise JoinError(f"the worker {how_it_ended(child)} before it was ready; {child.log} says more")


def environment(files: SiteFiles) -> dict[str, str]:
    """Of all programs at the site. Nothing is reported, looked up or installed."""
    return command_line.environment(files.state / "flower") | {HOME_OF_SITE: str(files.home)}


def node_command(site: Site, port: int, own_secret: Path) -> list[str]:
    """Flower's node. Only `tasks` can fetch what it receives: both know a secret."""
    files = site.files
    return [
        command_line.program("flower-supernode"), "--superlink", site.server, "--root-certificates", str(files.ca),
        "--auth-supernode-private-key", str(files.key), "--host", "127.0.0.1", "--port", str(port),
        "--isolation", "process", "--superexec-auth-secret-file", str(own_secret),
    ]  # fmt: skip


def _listen(child: Child, heard: "SimpleQueue[str]") -> None:
    """Pass on what the worker says until it ends."""
    assert child.process.stdout is not None
    for line in child.process.stdout:
        heard.put(line.decode(errors="replace").rstrip("\n"))
