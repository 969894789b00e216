"""The federation's certificate authority, and the server's certificate that it signs (X.509, elliptic curve P-256).

Sites trust this authority only, so a certificate that anybody else issued for the server's name is refused.
"""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedrl.errors import FedRLError
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.private_files import write_private, write_public

CA_DAYS, SERVER_DAYS = 3650, 730
BEFORE_NOW = timedelta(days=1)  # valid since yesterday: clocks differ
LOCAL = ("localhost", "127.0.0.1")  # the proxy reaches Flower's SuperLink by these


class CertificateError(FedRLError, ValueError):
    """A certificate or its key cannot be used; the message says why."""


class AuthorityFiles(NamedTuple):
    """The folder ca/. It is needed for new certificates only, so it belongs on a disk that is not connected."""

    home: Path

    @property
    def key(self) -> Path:
        return self.home / "ca.key"

    @property
    def certificate(self) -> Path:
        return self.home / "ca.crt"


def create_authority(files: AuthorityFiles, name: str, days: int = CA_DAYS) -> None:
    """A certificate authority for the federation `name`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(f"CA of {name}")
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage(signs_certificates=True), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ]
    now = datetime.now(UTC)
    certificate = _signed(subject, subject, key.public_key(), key, now + timedelta(days=days), extensions)
    _write_key(files.key, key)
    write_public(files.certificate, certificate.public_bytes(Encoding.PEM))


def issue_server(authority: AuthorityFiles, files: ServerFiles, host: str, days: int = SERVER_DAYS) -> x509.Certificate:
    """A new key and certificate for the server that sites reach as `host`. Replaces those that are there.

    A crash between the two files leaves a pair that does not match (`is_for_key`); issuing again mends that.
    """
    issuer, issuer_key = read(authority.certificate), _read_key(authority.key)
    if issuer.public_key() != issuer_key.public_key():
        raise CertificateError(
            f"{authority.key} is not the key of {authority.certificate}; restore both from one backup"
        )
    now = datetime.now(UTC)
    if issuer.not_valid_after_utc <= now:
        raise CertificateError(
            f"{authority.certificate} expired on {issuer.not_valid_after_utc:%Y-%m-%d}; make a new federation with "
            "`fedrl federation init` and hand out its folders"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_general_name(name) for name in dict.fromkeys((host, *LOCAL))]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False),
    ]
    end = min(now + timedelta(days=days), issuer.not_valid_after_utc)
    certificate = _signed(_named(host), issuer.subject, key.public_key(), issuer_key, end, extensions)
    _write_key(files.key, key)
    write_public(files.certificate, certificate.public_bytes(Encoding.PEM))
    return certificate


def read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        raise CertificateError(
            f"{path} is not there; restore it from your backup, or ask the operator for it"
        ) from None
    except OSError as error:
        raise CertificateError(
            f"{path} cannot be read ({error.strerror}); it must be a file that this user may read"
        ) from None
    except ValueError:
        raise CertificateError(f"{path} is not a certificate in PEM form; restore it from your backup") from None


def valid_from(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc


def valid_until(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the authority's key signed the certificate; dates are not looked at."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):  # another key, another issuer's name, another kind of key
        return False
    return True


def names(certificate: x509.Certificate) -> list[str]:
    """The hosts that the certificate is for."""
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *alternatives.get_values_for_type(x509.DNSName),
        *map(str, alternatives.get_values_for_type(x509.IPAddress)),
    ]


def is_for_host(certificate: x509.Certificate, host: str) -> bool:
    general = _general_name(host)
    wanted = str(general.value).lower()
    return wanted in [name.lower() for name in names(certificate)]


def is_for_key(certificate: x509.Certificate, key: Path) -> bool:
    """Whether the private key in the file `key` is the certificate's."""
    return _encoded(_read_key(key).public_key()) == _encoded(certificate.public_key())


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    end: datetime,
    extensions: list[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder(issuer, subject, public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), end) - BEFORE_NOW)
        .not_valid_after(end)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    short = name.encode()[:64].decode(errors="ignore")  # the standard allows no more
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, short)])


def _general_name(host: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        raise CertificateError(f"{path} is not there; put it back from where you keep it") from None
    except OSError as error:
        raise CertificateError(
            f"{path} cannot be read ({error.strerror}); it must be a file that this user may read"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a passphrase
        raise CertificateError(
            f"{path} is not a private key without a passphrase; restore it from your backup"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path} is not a key of an elliptic curve; restore it from your backup")
    return key


def _encoded(key: object) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return encoded
