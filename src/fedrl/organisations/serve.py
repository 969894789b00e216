"""`fedrl federation serve`: the server of a federation, until its rounds are done.

If one of its programs dies, it is started again, and the run goes on from its last checkpoint; sites notice a pause.
"""

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from fedrl.organisations import agreement as agreements
from fedrl.organisations import check_certificates, folders, ports, proxy, server_settings, versions
from fedrl.organisations.check_items import FAIL
from fedrl.organisations.follow import End, Follower
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.processes import Children, terminable
from fedrl.organisations.secret import check_mode
from fedrl.organisations.server_programs import ServeError, Server
from fedrl.organisations.server_settings import ServerSettings
from fedrl.records import lock
from fedrl.records.formatting import say


def serve(folder: Path) -> int:
    """Play the rounds that are left; 0 if all have been played, 1 if the run stopped."""
    files, console = folders.server(folder.resolve()), Console(stderr=True, highlight=False)
    agreement, settings = agreements.read(files.agreement), server_settings.read(files)
    versions.require(agreement.versions)
    with terminable(), in_use(files.home, "served"), tempfile.TemporaryDirectory() as scratch:
        prepare(files, settings)
        with Children(files.home, files.logs) as children, Follower(files, agreement, console) as follower:
            try:
                with Server(files, settings, children, Path(scratch), console) as server:
                    end = server.play(agreement, follower)
            except KeyboardInterrupt:
                say(console, f"stopped; continue with: fedrl federation serve {shlex.quote(str(folder))}")
                raise
    return report(end, files, console)


def prepare(files: ServerFiles, settings: ServerSettings) -> None:
    """Raise a sentence for what would fail later, and make the folders."""
    check_mode(files.key)
    for item in check_certificates.of_server(files, settings.address.host):
        if item.result == FAIL:
            raise ServeError("; ".join(filter(None, (f"{item.item}: {item.found}", item.do))))
    if settings.proxy:
        proxy.program()
    listen = settings.listen
    if trouble := ports.trouble(*listen):
        who = f" by {ports.holder(listen.port)}" if ports.is_taken(trouble) else ""
        raise ServeError(
            f"nobody can listen on {listen} ({trouble.strerror}{who}); `fedrl federation check {files.home}` says what to do"
        )
    folders.require_writable(files)
    for made in (files.state, files.logs, files.state / "flower"):
        made.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def in_use(home: Path, what: str) -> Iterator[None]:
    """The lock of a server's or a site's folder."""
    held = lock.hold(home)
    if held is None:
        raise ServeError(f"{home} is {what} already, by process {lock.owner(home)}; stop that one first")
    lock.sign(home)
    try:
        yield
    finally:
        held.release()


def report(end: End, files: ServerFiles, console: Console) -> int:
    if end.finished:
        say(console, f"finished; the policy is {files.run / 'policy.safetensors'}, the log {files.run / 'log.jsonl'}")
        return 0
    say(console, f"the run stopped: {end.why}", "red")
    return 1
