"""How much memory is free: on the machine, within this process's control groups, and on the GPU."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch


class AvailableMemory(NamedTuple):
    """Bytes; None if unknown, or for `device` if it has no memory of its own."""

    host: int | None
    device: int | None


class _Files(NamedTuple):
    """The file names of a version of control groups, and the name of reclaimable memory in its statistics."""

    folder: str
    limit: str
    used: str
    spare: str


V1 = _Files("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = _Files("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def available_memory(device: str) -> AvailableMemory:
    return AvailableMemory(host_memory(), torch.cuda.mem_get_info()[0] if device == "cuda" else None)


def host_memory(root: Path = Path("/")) -> int | None:
    """The memory of the machine that this process may still use; None if the system does not report it."""
    limits = [*_machine(root), *_groups(root)]
    return max(0, min(limits)) if limits else None


def _machine(root: Path) -> Iterator[int]:
    file = root / "proc/meminfo"
    if file.exists():
        lines = (line.split() for line in file.read_text().splitlines())
        yield from (1024 * int(words[1]) for words in lines if words[0] == "MemAvailable:")
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # other systems report only their total memory
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _groups(root: Path) -> Iterator[int]:
    """Limit minus usage of every control group of this process, including their parents."""
    file = root / "proc/self/cgroup"
    for line in file.read_text().splitlines() if file.exists() else []:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        files = V1 if controllers else V2
        top = root / files.folder
        place = top / path.strip("/")
        for folder in (place, *place.parents):
            if top not in (folder, *folder.parents):
                break
            yield from _available(folder, files)


def _available(folder: Path, files: _Files) -> Iterator[int]:
    limit, used = folder / files.limit, folder / files.used
    if not limit.exists() or not used.exists() or limit.read_text().strip() == "max":
        return
    stat = folder / "memory.stat"
    statistics = dict(line.split() for line in stat.read_text().splitlines()) if stat.exists() else {}
    yield int(limit.read_text()) - int(used.read_text()) + int(statistics.get(files.spare, 0))
