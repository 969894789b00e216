"""HOST:PORT, as users write it."""

import ipaddress
import re
from typing import NamedTuple

from fedrl.organisations.tables import FileError

LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


class Address(NamedTuple):
    host: str  # a name or an IP address, without brackets
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str, what: str = "the address") -> Address:
    """`what` names the option or the line of a file in messages."""
    host, _, port = text.rpartition(":")
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_number = port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535
    bare_ipv6 = ":" in name and name == host
    if not is_number or bare_ipv6 or not (is_ip(name) or _is_name(name)):
        raise FileError(
            f"{what} is {text!r:.100}, expected HOST:PORT such as fed.example.org:8443, 192.0.2.7:8443 or "
            "[2001:db8::7]:8443; correct it"
        )
    return Address(name, int(port))


def parse_reachable(text: str, what: str = "the address") -> Address:
    """What sites connect to, which "all addresses" is not."""
    address = parse(text, what)
    if is_ip(address.host) and ipaddress.ip_address(address.host).is_unspecified:
        raise FileError(
            f"{what} is {text!r}, to which no site can connect; write the name or the IP address by which sites reach the "
            f"server (where it listens is another setting, and may be {text})"
        )
    return address


def parse_listen(text: str, what: str = "listen") -> Address:
    """Where a server listens: an IP address of this machine; 0.0.0.0 means all of IPv4, [::] all of IPv6."""
    address = parse(text, what)
    if not is_ip(address.host):
        raise FileError(
            f"{what} is {text!r}, expected an IP address of this machine and a port, or 0.0.0.0:{address.port} for all; "
            "correct it"
        )
    return address


def default_listen(address: Address) -> Address:
    """The address itself where it is an IP address; otherwise all IPv4 addresses of the machine."""
    if address.host == "localhost":
        return Address("127.0.0.1", address.port)
    return address if is_ip(address.host) else Address("0.0.0.0", address.port)


def is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # a zone, fe80::1%eth0, means something on one machine only


def _is_name(host: str) -> bool:
    """Four numbers that are no IP address are no name either."""
    labels = host.split(".")
    return len(host) <= 253 and all(map(LABEL.fullmatch, labels)) and not labels[-1].isdecimal()
