"""The lines of `fedrl federation check`, and those that server and sites share: files, versions, programs, disk."""

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fedrl.organisations.agreement import Agreement
from fedrl.organisations.folders import unwritable
from fedrl.organisations.status import is_held
from fedrl.organisations.versions import MISSING, PACKAGES, differing, install, installed
from fedrl.records import lock

OK, WARN, FAIL, SKIPPED = "ok", "warn", "fail", "skipped"
LEAST_SPACE, LITTLE_SPACE = 200 * 2**20, 2 * 2**30  # bytes


class Item(NamedTuple):
    item: str
    result: str
    found: str
    do: str = ""


def ok(item: str, found: str) -> Item:
    return Item(item, OK, found)


def warn(item: str, found: str, do: str = "") -> Item:
    return Item(item, WARN, found, do)


def fail(item: str, found: str, do: str) -> Item:
    return Item(item, FAIL, found, do)


def skipped(item: str, why: str) -> Item:
    return Item(item, SKIPPED, f"not checked: {why}")


def files(needed: Sequence[Path], private: Sequence[Path], source: str) -> Iterator[Item]:
    """Whether all files are there, and nobody else can read the private ones; `source` says who has a missing one."""
    missing = [path for path in (*needed, *private) if not path.is_file()]
    for path in missing:
        yield fail("files", f"{path} is not there", source)
    if not missing:
        yield ok("files", f"all {len(needed) + len(private)} are there")
    for path in private:
        if path.is_file():
            yield _private(path)


def _private(path: Path) -> Item:
    item, about = f"mode of {path.name}", path.stat()
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid != os.geteuid():
        do = f"run fedrl as that user, or: sudo chown {os.geteuid()} {shlex.quote(str(path))}"
        return fail(item, f"{path} belongs to user {about.st_uid}, and you are user {os.geteuid()}", do)
    if mode & 0o077:
        return fail(
            item, f"{mode:o}, so other users of this machine can read it", f"chmod 600 {shlex.quote(str(path))}"
        )
    return ok(item, f"{mode:o}, and it is yours")


def package_versions(agreement: Agreement | None) -> Iterator[Item]:
    """This machine's versions against [versions] of federation.toml, one line for each that differs."""
    here, agreed = installed(), agreement.versions if agreement else {}
    needed = ".".join(agreed.get("python", here["python"]).split(".")[:2])  # 3.11.2 is as good as 3.11.9
    if needed != here["python"]:
        found = (
            f"Python {here['python']} here, {needed} in federation.toml: fine, but last digits of results may differ"
        )
        yield warn("version of python", found, f"if bytes must be equal, make an environment with Python {needed}")
    others = differing(agreed)
    for name, number in others.items():
        yield fail(f"version of {name}", f"{here[name]} here, {number} in federation.toml", install({name: number}))
    gone = [name for name in PACKAGES if here[name] == MISSING and name not in others]
    for name in gone:
        yield fail(f"version of {name}", MISSING, "pip install 'fedrl[flower]'")
    if others or gone:
        return
    words = ", ".join(f"{name} {number}" for name, number in here.items())
    if agreement is None:
        yield skipped("versions", f"federation.toml cannot be read; here are {words}")
    elif any(name in agreed for name in PACKAGES):
        yield ok("versions", words)
    else:
        do = "add [versions], as `fedrl federation init` writes it, or compare these with the other sites'"
        yield warn("versions", f"{words}; federation.toml has no [versions]", do)


def programs(names: Sequence[str]) -> Item:
    """Whether Flower's programs are where its own processes look for them: beside Python or on the PATH."""
    beside = str(Path(sys.executable).parent)
    missing = [name for name in names if not shutil.which(name, path=beside) and not shutil.which(name)]
    if missing:
        found = f"{', '.join(missing)} not found, neither in {beside} nor on the PATH"
        return fail("programs of Flower", found, "pip install 'fedrl[flower]' in the environment that fedrl runs in")
    return ok("programs of Flower", ", ".join(names))


def disk(folder: Path, *inside: Path) -> Item:
    """Whether the folder and those in it can be written, and the space that is left."""
    if wrong := unwritable((folder, *inside)):
        found = f"{wrong.folder} cannot be written to ({wrong.why})"
        return fail("disk", found, "make it writable for this user, or free some space")
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GB free" if free >= 2**30 else f"{free / 2**20:.0f} MB free"
    if free < LEAST_SPACE:
        return fail("disk", f"{found} in {folder}, at least {LEAST_SPACE / 2**20:.0f} MB are needed", "free some space")
    if free < LITTLE_SPACE:
        return warn("disk", f"{found} in {folder}; state and logs grow while it runs", "free some space")
    return ok("disk", f"{found}, and the folder is writable")


def in_short(agreement: Agreement) -> str:
    counts = {"round": agreement.rounds, "client": agreement.num_clients, "site": len(agreement.sites)}
    words = ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())
    return f"{agreement.name}: {words}; digest {agreement.digest[:12]}, which must be the same everywhere"


def running(folder: Path) -> Item:
    """Whether a process serves or joins with this folder already: worth knowing, no fault."""
    return ok("running", f"yes, as process {lock.owner(folder)}" if is_held(folder) else "no")
