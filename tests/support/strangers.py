"""What somebody tries who has the server's address and the certificate of its authority, but no key that is registered."""

import http.client
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from support.served import Served
from support.superlink import free_port, until

from fedrl.flower import command_line
from fedrl.organisations import node_keys, superlink

REFUSED = "refused"


def tries(one: Served) -> dict[str, str]:
    """Each attempt, and "refused" or what was answered."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        node_keys.create_pair(home / "own.key", home / "own.pub", "stranger")
        shutil.copy(one.sites["press"].ca, home / "ca.crt")
        connection = {"address": one.address, "root-certificates": str(home / "ca.crt")}
        (home / "flower").mkdir()
        words = command_line.write_connection(home / "flower", "there", connection)
        environment = command_line.environment(home / "flower") | words
        app = command_line.write_app(home / "fedrl", superlink.APP)
        node = ["flower-supernode", "--superlink", one.address, "--root-certificates", str(home / "ca.crt")]
        own = ["--host", "127.0.0.1", "--port", str(free_port())]
        commands = {
            "registers its key": (["flwr", "supernode", "register", str(home / "own.pub"), "there"], "403"),
            "submits a run": (["flwr", "run", str(app), "there"], "403"),
            "lists nodes": (["flwr", "supernode", "list", "there"], "403"),
            "is a node": ([*node, *own, "--auth-supernode-private-key", str(home / "own.key")], "Exit Code: 305"),
            "is a node without a key": ([*node, *own], "403 Forbidden"),
        }
        answers = {name: _refused(command, sign, environment, home) for name, (command, sign) in commands.items()}
        return answers | {path: _asked(one.address, home / "ca.crt", path) for path in PATHS}


PATHS = ("/v1/runtime/acquire-task", "/v1/fleet/register-node", "/v1/control/start-run", "/docs", "/health")


def _refused(command: list[str], sign: str, environment: dict[str, str], home: Path) -> str:
    """This sign must be in what it says. A node that is refused may stay, without a connection."""
    words = [command_line.program(command[0]), *command[1:]]
    said = home / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(words, env=environment, cwd=home, stdout=out, stderr=out, start_new_session=True)
        try:
            until(lambda: sign in said.read_text(errors="replace") or process.poll() is not None, 60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    text = said.read_text(errors="replace")
    accepted = process.returncode == 0 or "SuperNode ID" in text
    return REFUSED if sign in text and not accepted else f"exit code {process.returncode}: {text[-500:]}"


def _asked(address: str, ca: Path, path: str) -> str:
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPSConnection(
        host, int(port), context=ssl.create_default_context(cafile=str(ca)), timeout=30
    )
    try:
        connection.request("POST", path, b"")
        status = connection.getresponse().status
    finally:
        connection.close()
    return REFUSED if status == 403 else f"status {status}"
