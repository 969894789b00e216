"""A Ray cluster of two hosts, which are two network namespaces joined by a cable (a veth pair); needs root.

The namespaces, their addresses and every process in them are made here, and removed whatever happens.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("ray")

HEAD = "10.213.77.1"
SETTINGS = [f"--set={setting}" for setting in ("rounds=6", "clients=4", "local_steps=2", "horizon=5", "over=map")]
QUICKSTART = [sys.executable, "-W", "ignore", "-m", "fedrl.cli", "run", "quickstart", *SETTINGS, "--seeds", "1"]
NOTICED = {  # Ray gives a dead host up sooner than after its default of half a minute
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}


class Host(NamedTuple):
    name: str  # of its network namespace
    address: str
    link: str  # its end of the cable
    variables: dict[str, str]

    def start(self, *command: str) -> subprocess.Popen:
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *command],
            env=os.environ | self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def does(self, *command: str) -> str:
        """The command's output, once it has succeeded."""
        process = self.start(*command)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return said

    def processes(self) -> list[int]:
        return [int(pid) for pid in ip("netns", "pids", self.name).split()]

    def kill(self) -> None:
        """All of it at once: nobody says goodbye, and nothing it sends arrives any more."""
        ip("-n", self.name, "link", "set", self.link, "down")
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has just ended by itself


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("two hosts are two network namespaces, which want Linux, root and iproute2")
    mark = secrets.token_hex(2)
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_TMPDIR": folder}
        variables |= {
            "RAY_USAGE_STATS_ENABLED": "0",
            "HOME": folder,
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            **NOTICED,
        }
        both = tuple(
            Host(f"fedrl-{mark}-{end}", f"{HEAD[:-1]}{number}", f"frl{mark}{end}", variables)
            for number, end in ((1, "a"), (2, "b"))
        )
        try:
            _wire(*both)
            yield both
        finally:
            _remove(both)


def _wire(one: Host, two: Host) -> None:
    for host in (one, two):
        try:
            ip("netns", "add", host.name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this system allows no network namespaces: {error.stderr.strip()}")
    ip("link", "add", one.link, "netns", one.name, "type", "veth", "peer", "name", two.link, "netns", two.name)
    for host in (one, two):
        ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", host.link)
        ip("-n", host.name, "link", "set", host.link, "up")
        ip("-n", host.name, "link", "set", "lo", "up")


def _remove(both: tuple[Host, ...]) -> None:
    for host in both:
        if host.name in ip("netns", "list"):
            while host.processes():
                for pid in host.processes():
                    subprocess.run(["kill", "-KILL", str(pid)], check=False, capture_output=True)
                time.sleep(0.1)
            ip("netns", "delete", host.name)


def policies(folder: Path) -> dict[str, bytes]:
    """What each arm ended with."""
    return {file.parent.name: file.read_bytes() for file in sorted(folder.glob("arms/*/policy.safetensors"))}


def works(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Actor")
    except FileNotFoundError:
        return False


def test_both_work_and_one_may_die(hosts, tmp_path):
    """A run on both, and one whose second host dies after the first of four arms: the bytes of `fused` both times."""
    here, there = hosts
    ray = str(Path(sys.executable).with_name("ray"))
    one_core = ["--num-cpus", "1", "--object-store-memory", "100000000"]
    here.does(
        ray, "start", "--head", "--node-ip-address", HEAD, "--port", "6379", *one_core, "--include-dashboard=false"
    )
    there.does(ray, "start", "--address", f"{HEAD}:6379", "--node-ip-address", there.address, *one_core)

    def run(name: str, *engine: str) -> list[str]:
        return [*QUICKSTART, "--out", str(tmp_path / name), "--engine", *engine]

    on_ray = ["ray", "--address", f"{HEAD}:6379", "--workers", "2"]
    here.does(*run("fused", "fused"))
    expected = policies(tmp_path / "fused")
    assert len(expected) == 4
    here.does(*run("whole", *on_ray))
    assert policies(tmp_path / "whole") == expected

    killed = here.start(*run("killed", *on_ray))
    max_episode_steps = time.monotonic() + 200
    while not policies(tmp_path / "killed") and killed.poll() is None and time.monotonic() < max_episode_steps:
        time.sleep(0.05)
    assert killed.poll() is None
    assert any(works(pid) for pid in there.processes())
    there.kill()
    assert not policies(tmp_path / "killed").keys() >= expected.keys()
    said, _ = killed.communicate(timeout=300)
    assert killed.returncode == 0, said
    assert policies(tmp_path / "killed") == expected
