"""The key pair by which a site's node proves who it is: ECDSA on P-384, as OpenSSH writes it, without a passphrase.

Flower's nodes take only NIST curves in this format. Its server reports public keys as PEM; `comparable` takes both.
"""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedrl.errors import FedRLError
from fedrl.organisations.private_files import write_private, write_public

TAKEN = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)  # the curves that OpenSSH and Flower both know


class NodeKeyError(FedRLError, ValueError):
    """A site's key cannot be used; the message says why."""


def create_pair(private: Path, public: Path, comment: str) -> str:
    """Write both halves of a new key pair and return the public one, a line that ends with `comment`."""
    key = ec.generate_private_key(ec.SECP384R1())
    line = f"{_line(key.public_key())} {comment}"
    write_private(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    write_public(public, f"{line}\n".encode())
    return line


def public_of(private: Path) -> str:
    """The public half of the private key in a file, as OpenSSH's line without a comment."""
    try:
        key = load_ssh_private_key(private.read_bytes(), None)
    except FileNotFoundError:
        raise NodeKeyError(
            f"{private} is not there; restore it from your backup, or ask the operator for a new key"
        ) from None
    except OSError as error:
        raise NodeKeyError(
            f"{private} cannot be read ({error.strerror}); it must be a file that this user may read"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a passphrase
        raise NodeKeyError(
            f"{private} is not a private key as OpenSSH writes it, without a passphrase; ask the operator for a new key"
        ) from None
    return _line(_of_a_taken_curve(key.public_key(), str(private)))


def read_public(path: Path) -> bytes:
    """The public key in a file, as `comparable` gives it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NodeKeyError(f"{path} is not there; `fedrl federation init` writes it") from None
    except OSError as error:
        raise NodeKeyError(
            f"{path} cannot be read ({error.strerror}); it must be a file that this user may read"
        ) from None
    return comparable(data, str(path))


def pem_of(line: str) -> bytes:
    """OpenSSH's public line as the PEM that Flower's `grid.get_nodes()` reports."""
    return comparable(line)


def comparable(key: str | bytes, where: str = "the public key") -> bytes:
    """A public key, either OpenSSH's line or PEM, in one form: equal bytes are equal keys. `where` names it in messages."""
    data = (key.encode() if isinstance(key, str) else key).strip()
    load = load_pem_public_key if data.startswith(b"-----BEGIN") else load_ssh_public_key
    try:
        loaded = load(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise NodeKeyError(
            f"{where} is {data[:40]!r}, which is neither a public key as OpenSSH writes it (ecdsa-sha2-nistp384 …) nor PEM; "
            "take the site's file site.pub"
        ) from None
    return _of_a_taken_curve(loaded, where).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _of_a_taken_curve(key: object, where: str) -> ec.EllipticCurvePublicKey:
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, TAKEN):
        raise NodeKeyError(
            f"{where} is of a kind that Flower does not take, it takes ECDSA on NIST curves; make a new one with "
            'ssh-keygen -t ecdsa -b 384 -N ""'
        )
    return key


def _line(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
