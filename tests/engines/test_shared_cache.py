"""Workers share compiled programs: written under a temporary name, then renamed; killed ones leave no half program."""

import os
import socket
import subprocess
import sys

import jax
import pytest

from fedrl.engines.shared_cache import PRIVATE, SharedCache, open_shared

COMPILE = """
import os, signal, sys, jax, jax.numpy as jnp
from fedrl.engines.shared_cache import open_shared
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
shared = open_shared()
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
print(float(jax.jit(lambda x: jnp.sin(x) * 3.0)(2.0)))
if "publish" in sys.argv:
    shared.publish()
print(len(hits))
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def compiled(folder, *words) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(folder), *words], capture_output=True, text=True, timeout=120
    )
    return done.stdout.split()


def programs(folder) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file() and path.name.endswith("-cache")}


def test_the_second_worker_compiles_nothing(tmp_path):
    value, hits = compiled(tmp_path, "publish")
    assert programs(tmp_path)
    assert (hits, compiled(tmp_path)) == ("0", [value, "1"])
    assert not [
        path for path in tmp_path.iterdir() if path.name.startswith(".") and path.is_file()
    ]  # no temporary names


def test_what_a_killed_worker_did_not_publish_is_gone(tmp_path):
    compiled(tmp_path, "die")
    assert not programs(tmp_path)
    assert [path.name.startswith(PRIVATE) for path in tmp_path.iterdir()] == [True]
    compiled(tmp_path, "publish")  # and the next one removes its folder
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_an_entry_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    shared = SharedCache(tmp_path)
    (shared.own / "program-cache").write_bytes(b"whole")
    seen = []
    monkeypatch.setattr(os, "replace", lambda old, new: seen.append((old.read_bytes(), new.exists())))
    shared.publish()
    assert seen == [(b"whole", False)]


def test_nothing_is_looked_at_twice(tmp_path, monkeypatch):
    (tmp_path / "old-cache").write_bytes(b"program")
    shared = SharedCache(tmp_path)
    assert (shared.own / "old-cache").read_bytes() == b"program"
    shared.publish()
    monkeypatch.setattr(os, "listdir", lambda place: pytest.fail("read again"))
    shared.publish()


def test_a_worker_that_is_alive_keeps_its_folder(tmp_path):
    other = tmp_path / f"{PRIVATE}{socket.gethostname()}-{os.getppid()}"
    other.mkdir()
    SharedCache(tmp_path)
    assert other.exists()


def test_a_folder_without_links_is_only_read(tmp_path, monkeypatch):
    (tmp_path / "old-cache").write_bytes(b"program")
    before = {name: jax.config.values[name] for name in WRITTEN}
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError("no links here")))
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert open_shared() is None
        assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path)
        assert jax.config.values["jax_persistent_cache_min_compile_time_secs"] == float("inf")
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


WRITTEN = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
