"""The lines of `fedrl federation check`, and what server and sites have looked at alike: files, versions, programs, disk."""

import os
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedrl.organisations.status import is_held
from fedrl.organisations.versions import MISSING, PACKAGES, installed
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
    return Item(item, SKIPPED, f"not looked at: {why}")


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
        return fail(item, f"{path} belongs to user {about.st_uid}, and this is user {os.geteuid()}", do)
    if mode & 0o077:
        return fail(item, f"{mode:o}: others on this machine can read it", f"chmod 600 {shlex.quote(str(path))}")
    return ok(item, f"{mode:o}, and this user's own")


def package_versions(agreed: Mapping[str, object]) -> Iterator[Item]:
    """This machine's versions against [versions] of federation.toml, one line for each that differs."""
    here = installed()
    differing = {name: str(agreed[name]) for name in here if name in agreed and str(agreed[name]) != here[name]}
    needed = ".".join(differing.pop("python", here["python"]).split(".")[:2])  # 3.11.2 is as good as 3.11.9
    if needed != here["python"]:
        found = f"Python {here['python']} here, {needed} where the federation was made; last digits may differ"
        yield warn("version of python", found, f"make an environment of Python {needed}, if bytes must be equal")
    command = "pip install " + " ".join(f"'{name}=={needed}'" for name, needed in differing.items())
    for name, needed in differing.items():
        yield fail(f"version of {name}", f"{here[name]} here, federation.toml needs {needed}", command)
    gone = [name for name in PACKAGES if here[name] == MISSING and name not in differing]
    for name in gone:
        yield fail(f"version of {name}", MISSING, "pip install 'fedrl[flower]'")
    if differing or gone:
        return
    words = ", ".join(f"{name} {number}" for name, number in here.items())
    if not any(name in agreed for name in PACKAGES):
        yield warn("versions", f"{words}; federation.toml has no [versions]", "compare them with the operator's")
    else:
        yield ok("versions", words)


def programs(names: Sequence[str]) -> Item:
    """Whether Flower's programs are where its own processes look for them: beside Python or on the PATH."""
    beside = str(Path(sys.executable).parent)
    missing = [name for name in names if not shutil.which(name, path=beside) and not shutil.which(name)]
    if missing:
        found = f"{', '.join(missing)} neither in {beside} nor on the PATH"
        return fail("programs of Flower", found, "pip install 'fedrl[flower]' in the environment that fedrl runs in")
    return ok("programs of Flower", f"{', '.join(names)} are there")


def disk(folder: Path) -> Item:
    """Whether the folder can be written, and the space that is left."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return fail("disk", f"{folder} cannot be written ({error.strerror})", "give this user the right, or free space")
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GB free" if free >= 2**30 else f"{free / 2**20:.0f} MB free"
    if free < LEAST_SPACE:
        return fail("disk", f"{found} in {folder}, at least {LEAST_SPACE / 2**20:.0f} MB are needed", "free some space")
    if free < LITTLE_SPACE:
        return warn("disk", f"{found} in {folder}; state and logs grow while it runs", "free some space")
    return ok("disk", f"{found}, and it can be written")


def in_use(folder: Path, what: str) -> Item:
    """Whether a process runs the folder already: worth knowing, no fault."""
    return ok("in use", f"{what} by process {lock.owner(folder)}" if is_held(folder) else "by nobody")
