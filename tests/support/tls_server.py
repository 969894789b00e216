"""A server with TLS on loopback that says what it is told to: another time, another status, a certificate of any dates."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from fedrl.organisations import certificates
from fedrl.organisations.certificates import AuthorityFiles
from fedrl.organisations.layout import ServerFiles


@contextmanager
def answering(files: ServerFiles, *, seconds: float = 0.0, status: int = 403, date: str | None = None) -> Iterator[int]:
    """The port; `seconds` is how far its clock is ahead, `date` what it says instead of a time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            if date != "":
                self.send_header("Date", date or formatdate(time.time() + seconds, usegmt=True))
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that does not trust the server goes away."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server) as port:
        yield port


@contextmanager
def serving(server: HTTPServer) -> Iterator[int]:
    """The port of a server that answers while the block runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def issue_for_tomorrow(authority: AuthorityFiles, files: ServerFiles) -> None:
    """The server's certificate again, valid from tomorrow on."""
    old, now = certificates.read(files.certificate), datetime.now(UTC)
    key = load_pem_private_key(authority.key.read_bytes(), None)
    builder = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), old.serial_number)
    builder = builder.not_valid_before(now + timedelta(days=1)).not_valid_after(now + timedelta(days=9))
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    files.certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
