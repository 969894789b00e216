"""A Ray that we start: who can reach it, and what it takes to be let in."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fedrl.engines import ray_cluster as module
from fedrl.engines.ray_closed import prepare_token

ray = pytest.importorskip("ray")

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}  # as /proc writes them
JOIN = """
import sys
from fedrl.engines import ray_cluster
ray = ray_cluster._import_ray()
ray_cluster._connect(ray, sys.argv[1], None)
print("let in", sorted(ray.cluster_resources())[0])
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The home of a user who has never started Ray, and in it one that we have started."""
    place = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(place))
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
            patch.setenv(name, "")  # so that what is set meanwhile is undone at the end
            patch.delenv(name)
        module.stop()
        actors = module._pool(None, 1)
        assert actors.count == 1
        yield place
        module.stop()


def join(address: str, **variables: str) -> str:
    """What becomes of another process that tries to join, with these variables of Ray's and no others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    clean["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray would look for it at the machine's own address
    clean["RAY_NUM_REDIS_GET_RETRIES"] = "1"  # else it would knock for twenty seconds
    command = [sys.executable, "-W", "ignore", "-c", JOIN, address]
    done = subprocess.run(command, env=clean | variables, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or done.stderr


def test_it_asks_for_a_token_that_only_its_owner_can_read(home):
    token = home / ".ray" / "auth_token"
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(token.read_text()) == 64
    assert [stat.S_IMODE(path.stat().st_mode) for path in (token.parent, token)] == [0o700, 0o600]


def test_without_the_token_nobody_joins(home, tmp_path):
    address = ray.get_runtime_context().gcs_address
    assert address.startswith("127.0.0.1:")
    token = (home / ".ray" / "auth_token").read_text()
    assert join(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token) == "let in CPU"
    for refused in (
        join(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token[::-1]),
        join(address, RAY_AUTH_MODE="disabled", HOME=str(tmp_path)),
    ):
        assert "InvalidAuthToken" in refused
        assert "`ray get-auth-token` prints it" in refused


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="which sockets listen is read in Linux's /proc")
def test_it_listens_on_the_loopback_address_only(home):
    owners = {process for process in Path("/proc").glob("[0-9]*") if os.getpid() in _line(int(process.name))}
    heard = {socket: address for process in owners for socket, address in _listening(process)}
    assert len(heard) >= 5  # of the head, the raylet, the worker and this process
    assert set(heard.values()) <= LOOPBACK


def _line(process: int) -> list[int]:
    """The process, its parent, and so on."""
    line = [process]
    while line[-1] > 1:
        try:
            told = Path(f"/proc/{line[-1]}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            break  # it has just ended
        line.append(int(told.rpartition(")")[2].split()[1]))
    return line


def _listening(process: Path) -> list[tuple[str, str]]:
    """(inode, address) of the sockets of a process that listen."""
    try:
        held = {os.readlink(file) for file in (process / "fd").iterdir()}
    except (FileNotFoundError, ProcessLookupError):
        return []
    rows = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    return [(row[9], row[1].split(":")[0]) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]


def test_a_wider_file_is_closed_and_the_users_mode_stays(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".ray"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    prepare_token(ray, joining=False)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert not folder.exists()
    folder.mkdir(mode=0o755)
    token = folder / "auth_token"
    token.write_text("0" * 64)
    for joining in (True, False):
        folder.chmod(0o755)
        token.chmod(0o644)
        prepare_token(ray, joining=joining)
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, token)] == [0o700, 0o600]
    assert token.read_text() == "0" * 64
