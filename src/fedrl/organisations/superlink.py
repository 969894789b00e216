"""Flower's SuperLink on the server's machine: the commands that start it, the nodes it knows, and its runs.

It listens on loopback only; `proxy.py` is what the world sees. Flower's own client of its control API is used for what its
command line does not show (the keys of nodes) or would take seconds for.
"""

import secrets
from pathlib import Path
from typing import NamedTuple

import httpx
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedrl.errors import FedRLError
from fedrl.flower import command_line
from fedrl.flower.command_line import FlowerLink
from fedrl.organisations import node_keys
from fedrl.organisations.layout import HOME_OF_SERVER, ServerFiles
from fedrl.organisations.private_files import write_private

CONNECTION = "server"  # its name in Flower's configuration
TASK_PAUSE = 0.2  # seconds between looks for a run to start
PATIENCE = 60.0  # seconds for an answer
APP = command_line.app(server="fedrl.organisations.server_app:app", client="fedrl.organisations.node:app", config={})
SECRET_LENGTH = 32


class SuperLinkError(FedRLError, ValueError):
    """The SuperLink does not do what it was asked; the message says why."""


class RunState(NamedTuple):
    """A run as Flower sees it."""

    over: bool
    why: str


def environment(files: ServerFiles) -> dict[str, str]:
    """Of all programs at the server. Nothing is reported, looked up or installed."""
    own = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(TASK_PAUSE), HOME_OF_SERVER: str(files.home)}
    return command_line.environment(files.state / "flower") | own


def link_command(files: ServerFiles, port: int) -> list[str]:
    """The SuperLink itself. Only the program of `executor_command` can fetch what there is to start: both know a secret."""
    return [
        command_line.program("flower-superlink"), "--host", "127.0.0.1", "--port", str(port),
        "--ssl-certfile", str(files.certificate), "--ssl-keyfile", str(files.key), "--ssl-ca-certfile", str(files.ca),
        "--enable-supernode-auth", "--database", str(files.state / "superlink.db"),
        "--disable-runtime-dependency-installation", "--isolation", "process",
        "--superexec-auth-secret-file", str(_secret(files)),
    ]  # fmt: skip


def executor_command(files: ServerFiles, port: int) -> list[str]:
    """What starts `server_app`."""
    return [
        command_line.program("flower-superexec"), "--runtime-api-address", f"127.0.0.1:{port}",
        "--root-certificates", str(files.ca), "--superexec-auth-secret-file", str(_secret(files)),
    ]  # fmt: skip


def _secret(files: ServerFiles) -> Path:
    path = files.state / "executor.secret"
    if not path.exists():
        write_private(path, secrets.token_bytes(SECRET_LENGTH))
    return path


class SuperLink:
    """A SuperLink that runs on this machine."""

    def __init__(self, files: ServerFiles, port: int, client: ControlHttpClient, scratch: Path):
        self.files, self.port, self.client, self.scratch = files, port, client, scratch
        connection = {"address": f"127.0.0.1:{port}", "root-certificates": str(files.ca)}
        words = command_line.write_connection(scratch, CONNECTION, connection)
        self.flwr = FlowerLink((command_line.program("flwr"),), CONNECTION, environment(files) | words, PATIENCE)

    def is_up(self) -> bool:
        try:
            self.client.ListNodes(ListNodesRequest())
        except (httpx.HTTPError, OSError):
            return False
        return True

    def enrol(self, keys: dict[str, bytes]) -> list[str]:
        """Make its nodes those of `keys`, the public key of each site, and no others; returns who was removed."""
        known = {
            node_keys.comparable(node.public_key): node
            for node in self.client.ListNodes(ListNodesRequest()).nodes_info
            if node.status != "unregistered"
        }
        removed = []
        for key, node in known.items():
            if key not in keys.values():
                self.client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
                removed.append(node.name)
        for site, key in keys.items():
            if key not in known:
                self._register(site, key)
        return removed

    def _register(self, site: str, key: bytes) -> None:
        try:
            self.client.RegisterNode(RegisterNodeRequest(public_key=key, name=site))
        except httpx.HTTPStatusError as error:
            raise SuperLinkError(
                f"Flower refuses the key of site {site} (HTTP {error.response.status_code}); a key that was removed once "
                f"cannot come back: make a new one with `fedrl federation init DIR --add {site}`"
            ) from error

    def submit(self) -> str:
        """Start the run; returns Flower's number of it."""
        app = command_line.write_app(self.scratch / "fedrl", APP)
        return str(self.flwr.ask("run", str(app), CONNECTION)["run-id"])

    def state(self, run: str) -> RunState:
        runs = self.client.ListRuns(ListRunsRequest(run_id=int(run))).run_dict
        status = runs[int(run)].status
        return RunState(status.status == "finished", " ".join(f"{status.sub_status} {status.details}".split()))

    def stop_all(self) -> None:
        """End all runs that are not over; an earlier server that was killed may have left some."""
        for number, run in self.client.ListRuns(ListRunsRequest()).run_dict.items():
            if run.status.status != "finished":
                self.client.StopRun(StopRunRequest(run_id=number))

    def close(self) -> None:
        """A SuperLink does not end while somebody is connected."""
        self.client.close()


def connect(files: ServerFiles, port: int, scratch: Path) -> SuperLink:
    client = ControlHttpClient.from_server_address(
        f"127.0.0.1:{port}",
        insecure=False,
        root_certificates=files.ca.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
    )
    return SuperLink(files, port, client, scratch)
