"""What `fedrl federation check` sees on the way to the server: name, port, TLS, proxy, clock."""

import http.client
import re
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path

from fedrl.organisations import addresses
from fedrl.organisations.check_items import Item, fail, ok, skipped, warn

PATIENCE = 8.0  # seconds for a connection, and for every answer
# Flower refuses a node's signature that is older than 305 s, or more than 5 s in the server's future. A message takes time,
# too, and `Date` has whole seconds.
BEHIND, AHEAD = 240.0, 5.0  # seconds that a site's clock may be behind or ahead of the server's
ODD_BEHIND, ODD_AHEAD = 10.0, 2.0  # more than these is worth a warning
SET = "set this machine's clock (timedatectl set-ntp true), or tell the operator if it is the server's that is wrong"
WHICH_PORT = "ask the operator for the address of the proxy, and correct `server` in site.toml"
EXPIRED, NOT_YET, OTHER_HOST, OTHER_ADDRESS = 10, 9, 62, 64  # OpenSSL's numbers, X509_V_ERR_…
UNKNOWN_SIGNER = (2, 7, 18, 19, 20, 21, 24, 30)
BRACKETS = re.compile(r"[\[(].*?[\])] ?")  # OpenSSL's numbers and places
PORT = "port of the server"
NAMES = ("name of the server", PORT, "TLS", "proxy", "clock")


def items(address: str, ca: Path) -> Iterator[Item]:
    """One item for each of NAMES, in this order."""
    host, port = addresses.parse(address, "server in site.toml")
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except OSError as error:
        do = "correct `server` in site.toml, or ask whoever looks after your network's names (DNS)"
        yield from _stop(
            0, f"no address is known for {host} ({error.strerror})", do, "the server's address is not known"
        )
        return
    yield ok(NAMES[0], host if found == [host] else f"{host} is {', '.join(found)}")
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        yield from _stop(1, *_no_connection(address, error), "nothing answers at the port")
        return
    yield ok(NAMES[1], f"{address} answers")
    yield from _tls(host, port, ca)


def _no_connection(address: str, error: OSError) -> tuple[str, str]:
    if isinstance(error, TimeoutError):
        return (
            f"{address} does not answer within {PATIENCE:.0f} s",
            "ask the operator, or whoever looks after the firewalls",
        )
    if isinstance(error, ConnectionRefusedError):
        return f"{address} refuses connections", "ask the operator whether the server is running, and on which port"
    return f"{address} cannot be reached ({error.strerror or error})", "check this machine's network"


def _tls(host: str, port: int, ca: Path) -> Iterator[Item]:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        why = f"{ca} cannot be used ({error.strerror or error})"
        yield from _stop(2, why, "ask the operator for ca.crt", "without ca.crt nobody can be trusted")
        return
    trusted = True
    try:
        began, status, date = _ask(host, port, context)
    except ssl.SSLCertVerificationError as error:
        yield fail(NAMES[2], *_distrust(host, ca, error))
        if error.verify_code not in (EXPIRED, NOT_YET):
            yield from (skipped(name, "whoever answers has not proven to be the server") for name in NAMES[3:])
            return
        trusted = False
    except (ssl.SSLError, OSError, http.client.HTTPException) as error:
        yield from _no_tls(f"{host}:{port}", error)
        return
    if not trusted:  # the wrong clock may be the reason, so look at it; nothing secret is sent
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            began, status, date = _ask(host, port, context)
        except (OSError, http.client.HTTPException) as error:
            yield from (skipped(name, f"no answer ({error})") for name in NAMES[3:])
            return
    else:
        yield ok(NAMES[2], f"{host} has a certificate that the authority in {ca.name} signed")
    yield _proxy(status)
    yield _clock(date, began, time.time())


def _ask(host: str, port: int, context: ssl.SSLContext) -> tuple[float, int, str | None]:
    """When it was asked, and the answer to `GET /`: its status and its Date."""
    connection = http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=context)
    try:
        connection.connect()
        began = time.time()
        connection.request("GET", "/")
        answer = connection.getresponse()
        return began, answer.status, answer.getheader("Date")
    finally:
        connection.close()


def _distrust(host: str, ca: Path, error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    """What is wrong with the server's certificate, and what to do."""
    if error.verify_code == EXPIRED:
        found = f"by this machine's clock, the certificate of {host} has expired"
        return (
            found,
            "if the clock is right, ask the operator for a new certificate (fedrl federation init DIR --renew)",
        )
    if error.verify_code == NOT_YET:
        found = f"by this machine's clock, the certificate of {host} is not valid yet"
        return found, "set this machine's clock (timedatectl set-ntp true), or ask the operator"
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        do = "write the operator's --address as `server` in site.toml, or ask for a certificate that names this one"
        return f"the certificate is for another host than {host}", do
    if error.verify_code in UNKNOWN_SIGNER:
        found = f"the certificate of {host} was not signed by the authority in {ca}"
        return (
            found,
            "ask the operator for this federation's ca.crt; if it is the same, it is not the server that answers",
        )
    return f"the certificate of {host} is refused ({error.verify_message})", "show this line to the operator"


def _no_tls(address: str, error: Exception) -> Iterator[Item]:
    if isinstance(error, http.client.HTTPException):
        yield ok(NAMES[2], "the server has proven who it is")
        yield from _stop(3, f"{address} does not speak HTTP", WHICH_PORT, "the server has not said its time")
        return
    if isinstance(error, TimeoutError):
        found = f"{address} accepts the connection, but says nothing for {PATIENCE:.0f} s"
    else:
        found = f"{address} does not speak TLS ({BRACKETS.sub('', str(error)).strip()})"
    yield from _stop(2, found, WHICH_PORT, "there is no TLS")


def _proxy(status: int) -> Item:
    if status == 403:
        return ok(NAMES[3], "it refuses what no site needs")
    found = f"GET / gives {status} and not 403, so this is not the proxy that `fedrl federation serve` starts"
    do = "ask the operator whether Flower's SuperLink itself can be reached from outside; it must not be"
    return warn(NAMES[3], found, do)


def _clock(date: str | None, began: float, ended: float) -> Item:
    try:
        there = parsedate_to_datetime(date or "")
    except ValueError:
        return warn(NAMES[4], f"the server does not say what time it has (Date: {date})", "compare the clocks by hand")
    seconds = there.replace(tzinfo=there.tzinfo or UTC).timestamp() + 0.5  # it is rounded down
    behind = seconds - (began + ended) / 2
    found = f"this machine is {abs(behind):.0f} s {'behind' if behind > 0 else 'ahead of'} the server"
    if behind > BEHIND or -behind > AHEAD:
        limit = "5 minutes behind" if behind > 0 else f"{AHEAD:.0f} s ahead"
        return fail(NAMES[4], f"{found}; Flower refuses sites that are more than {limit}", SET)
    if behind > ODD_BEHIND or -behind > ODD_AHEAD:
        return warn(NAMES[4], found, SET)
    return ok(NAMES[4], f"within {ODD_AHEAD:.0f} s of the server's" if abs(behind) <= ODD_AHEAD else found)


def _stop(place: int, found: str, do: str, why: str) -> Iterator[Item]:
    """The item of NAMES that failed; those after it are not checked."""
    yield fail(NAMES[place], found, do)
    yield from (skipped(name, why) for name in NAMES[place + 1 :])
