"""The programs of the server: Flower's SuperLink, what starts `server_app` for it, and the proxy."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
from rich.console import Console

from fedrl.errors import FedRLError
from fedrl.flower.command_line import FlowerCommandError
from fedrl.organisations import node_keys, ports, proxy, superlink
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.follow import End, Follower
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.processes import Children, wait_until
from fedrl.organisations.server_settings import ServerSettings
from fedrl.organisations.superlink import SuperLink
from fedrl.records.formatting import say

LINK, EXECUTOR, PROXY = "superlink", "executor", "proxy"
STARTS, LISTENS = 90.0, 15.0  # seconds in which the SuperLink must answer, and the proxy must listen
MOST_STARTS = 5  # without a new round in between
PAUSE = 0.3  # seconds between looks


class ServeError(FedRLError, ValueError):
    """The server cannot go on; the message says why."""


class Server:
    """Keeps the programs running, and the run at the SuperLink."""

    def __init__(
        self, files: ServerFiles, settings: ServerSettings, children: Children, scratch: Path, console: Console
    ):
        self.files, self.children, self.scratch, self.console = files, children, scratch, console
        self.listen, self.has_proxy = settings.listen, settings.proxy
        self.environment = superlink.environment(files)
        self.link: SuperLink | None = None

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        """Runs that go on are over: the SuperLink would wait for a minute for the process that trains."""
        if self.link is not None:
            with suppress(httpx.HTTPError, OSError):  # it is not running
                self.link.stop_all()
            self.link.close()

    def play(self, agreement: Agreement, follower: Follower) -> End:
        """Until the run is over, whatever dies meanwhile."""
        starts, before = 0, follower.rounds
        while True:
            starts, before = (starts if follower.rounds == before else 0) + 1, follower.rounds
            if starts > MOST_STARTS:
                raise ServeError(f"started {MOST_STARTS} times without a new round; {self.files.logs} says why")
            try:
                link = self._running_link(agreement)
                link.stop_all()  # a run whose process was killed would go on for a minute, and keep sites waiting
                follower.begin(link.submit())
            except (httpx.HTTPError, OSError, FlowerCommandError):
                time.sleep(PAUSE)
                if self.children.running(LINK):
                    raise
                continue  # it died just now
            end = self._watch(link, follower)
            if end is not None and end.known:
                return end

    def _watch(self, link: SuperLink, follower: Follower) -> End | None:
        """How the run ended; None if Flower died and must be started again."""
        while True:
            time.sleep(PAUSE)
            for name in (LINK, EXECUTOR):
                if not self.children.running(name):
                    say(
                        self.console,
                        f"the {name} died (exit code {self.children.code(name)}); starting it again",
                        "yellow",
                    )
                    return None
            if self.has_proxy and not self.children.running(PROXY):
                say(self.console, "the proxy died; starting it again", "yellow")
                self._start_proxy(link.port)
            end = follower.look(link)
            if end is not None:
                return end

    def _running_link(self, agreement: Agreement) -> SuperLink:
        """The SuperLink, with everything around it; started if it does not run."""
        if self.link is not None and self.children.running(LINK) and self.children.running(EXECUTOR):
            return self.link
        if self.link is not None:
            self.link.close()
        self.children.stop(EXECUTOR, LINK)
        port = ports.free_port() if self.has_proxy else self.listen.port
        self.children.start(LINK, superlink.link_command(self.files, port), self.environment)
        link = self.link = superlink.connect(self.files, port, self.scratch)
        self._wait_for(LINK, link.is_up, STARTS)
        self._enrol(link, agreement)
        self.children.start(EXECUTOR, superlink.executor_command(self.files, port), self.environment)
        if self.has_proxy:
            self._start_proxy(port)
        return link

    def _enrol(self, link: SuperLink, agreement: Agreement) -> None:
        keys = site_keys(self.files, agreement)
        for name in link.enrol(keys):
            say(self.console, f"site {name}: its old key is not accepted any more", "yellow")
        for name in agreement.sites:
            if name not in keys:
                say(self.console, f"site {name} has no key in {self.files.site_keys}, so it is left out", "yellow")

    def _start_proxy(self, port: int) -> None:
        self.children.stop(PROXY)
        proxy.write(self.files, port, self.listen)
        self.children.start(PROXY, proxy.command(self.files), self.environment)
        self._wait_for(PROXY, lambda: ports.trouble(*self.listen) is not None, LISTENS)

    def _wait_for(self, name: str, ready: Callable[[], bool], seconds: float) -> None:
        """Until the program answers; a sentence if it ends or takes too long."""
        wait_until(lambda: not self.children.running(name) or ready(), seconds)
        child = self.children.children[name]
        if not self.children.running(name):
            raise ServeError(f"the {name} ended at once and said: {child.said()}; see {child.log}")
        if not ready():
            raise ServeError(f"the {name} does not answer after {seconds:.0f} s; see {child.log}")


def site_keys(files: ServerFiles, agreement: Agreement) -> dict[str, bytes]:
    """The public key of each site that has one. Flower takes each key once."""
    paths = {name: files.site_keys / f"{name}.pub" for name in agreement.sites}
    keys = {name: node_keys.read_public(path) for name, path in paths.items() if path.is_file()}
    owners: dict[bytes, str] = {}
    for name, key in keys.items():
        if (other := owners.setdefault(key, name)) != name:
            raise ServeError(
                f"{paths[name]} is the key of {other}, too, and each could act for the other; copy {name}'s own site.pub "
                f"there, or make a new key: fedrl federation init DIR --add {name}"
            )
    return keys
