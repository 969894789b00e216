"""Worker processes that share the cache of compiled programs and may be killed while they write to it.

JAX writes an entry in place, so a process killed at that instant leaves half a program, which nobody ever replaces. A worker
therefore has a folder of its own: it starts with links to all programs of the common cache, JAX writes new ones there, and
`publish`, called between two pieces of work, moves them to the common cache under a temporary name and then renames them.
"""

import contextlib
import os
import shutil
import socket
from pathlib import Path

import jax

PRIVATE = ".worker-"  # how the folders of workers begin, inside the common cache


class SharedCache:
    """The cache of one worker process, in front of the common one."""

    def __init__(self, common: Path):
        self.common = common
        self.own = common / f"{PRIVATE}{socket.gethostname()}-{os.getpid()}"
        self.published: set[str] = set()
        self.changed = -1
        _remove_abandoned(common)
        shutil.rmtree(self.own, ignore_errors=True)  # of a process that had the same number
        self.own.mkdir()
        with os.scandir(common) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                    self._link(entry.name)

    def _link(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # JAX, or the user, has just removed it
            os.link(self.common / name, self.own / name)
            self.published.add(name)

    def publish(self) -> None:
        """Make this worker's new programs available to others. JAX must not be compiling."""
        if (changed := self.own.stat().st_mtime_ns) == self.changed:
            return
        self.changed = changed
        for name in set(os.listdir(self.own)) - self.published:
            temporary = self.common / f".{name}-{os.getpid()}"
            os.link(self.own / name, temporary)
            os.replace(temporary, self.common / name)
            self.published.add(name)


def open_shared() -> SharedCache | None:
    """Put a folder of this process in front of the configured cache; None if there is none or it allows no links."""
    configured = jax.config.values["jax_compilation_cache_dir"]
    if not configured or "://" in configured or not jax.config.values["jax_enable_compilation_cache"]:
        return None
    try:
        shared = SharedCache(Path(configured))
    except OSError:  # a read-only folder, or a file system without hard links: read it and write nothing
        jax.config.update("jax_persistent_cache_min_compile_time_secs", float("inf"))
        return None
    jax.config.update("jax_compilation_cache_dir", str(shared.own))
    # XLA's own caches would be below this folder, and its path would become part of every program's name
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    return shared


def _remove_abandoned(common: Path) -> None:
    """Remove the folders of workers of this machine that have ended."""
    prefix = f"{PRIVATE}{socket.gethostname()}-"
    for place in common.glob(f"{prefix}*"):
        if not _alive(int(place.name.removeprefix(prefix))):
            shutil.rmtree(place, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
