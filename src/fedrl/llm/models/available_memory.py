"""How much memory is free: the machine's, what its control groups leave to this process, and the GPU's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch


class AvailableMemory(NamedTuple):
    """Bytes; None: unknown, or of the device, none of its own."""

    host: int | None
    device: int | None


class _Files(NamedTuple):
    """What a version of control groups calls its limit, its use, and in the statistics what it would give up at once."""

    folder: str
    limit: str
    used: str
    spare: str


V1 = _Files("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = _Files("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def available_memory(device: str) -> AvailableMemory:
    return AvailableMemory(host_memory(), torch.cuda.mem_get_info()[0] if device == "cuda" else None)


def host_memory(root: Path = Path("/")) -> int | None:
    """Of the machine's memory, what this process may still take; None where the system does not say."""
    known = [*_machine(root), *_groups(root)]
    return max(0, min(known)) if known else None


def _machine(root: Path) -> Iterator[int]:
    told = root / "proc/meminfo"
    if told.exists():
        lines = (line.split() for line in told.read_text().splitlines())
        yield from (1024 * int(words[1]) for words in lines if words[0] == "MemAvailable:")
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # other systems say only what they have in all
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _groups(root: Path) -> Iterator[int]:
    """Limit less use of every control group this process is in, their parents included."""
    told = root / "proc/self/cgroup"
    for line in told.read_text().splitlines() if told.exists() else []:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        files = V1 if controllers else V2
        top = root / files.folder
        place = top / path.strip("/")
        for folder in (place, *place.parents):
            if top not in (folder, *folder.parents):
                break
            yield from _unused(folder, files)


def _unused(folder: Path, files: _Files) -> Iterator[int]:
    limit, used = folder / files.limit, folder / files.used
    if not limit.exists() or not used.exists() or limit.read_text().strip() == "max":
        return
    stat = folder / "memory.stat"
    spare = dict(line.split() for line in stat.read_text().splitlines()) if stat.exists() else {}
    yield int(limit.read_text()) - int(used.read_text()) + int(spare.get(files.spare, 0))
