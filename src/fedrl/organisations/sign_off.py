"""Tell the server that a node that was killed is gone.

Flower counts a node as connected for a minute after its last sign of life, and until then does not let it in again. A site
knows better when its node has died: `close` signs it off, with the site's key, as the node itself does when it ends well.
"""

import re
import socket
from contextlib import suppress
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedrl.organisations.layout import SiteFiles
from fedrl.organisations.private_files import write_private
from fedrl.organisations.site import Site

NUMBER = re.compile(r"SuperNode ID: (\d+)")  # how Flower's node says it in its log, once it is connected
REFUSED = "Failed to activate SuperNode"  # the key is not known, or a node with it is connected


def number_in(text: str) -> int | None:
    """The number that the server gave a node, from the node's log."""
    found = NUMBER.findall(text)
    return int(found[-1]) if found else None


def remember(files: SiteFiles, number: int) -> None:
    """The host counts: in a copy of this folder elsewhere, nobody knows whether the node here has died."""
    write_private(_file(files), f"{number} {socket.gethostname()}\n".encode())


def close(site: Site) -> None:
    """Sign off this folder's last node; a server that cannot be asked now finds out by itself."""
    path = _file(site.files)
    if not path.exists():
        return
    number, host = path.read_text().split()
    if host == socket.gethostname():
        try:
            with _client(site) as client, suppress(httpx.HTTPStatusError):  # it is signed off already
                client.DeactivateNode(DeactivateNodeRequest(node_id=int(number)))
        except httpx.TransportError:
            return
    path.unlink()


def _client(site: Site) -> FleetHttpClient:
    key = load_ssh_private_key(site.files.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)  # `node_keys.public_of` has looked
    signed = NodeAuthHttpInterceptor(key, key.public_key())
    version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
    return FleetHttpClient.from_server_address(site.server, False, site.files.ca.read_bytes(), [version, signed])


def _file(files: SiteFiles) -> Path:
    return files.state / "node"
