"""HOST:PORT is read as written, and anything else is a sentence."""

import pytest

from fedrl.organisations import addresses
from fedrl.organisations.addresses import Address
from fedrl.organisations.tables import FileError


@pytest.mark.parametrize(
    ("text", "host", "port", "again"),
    [
        ("fed.example.org:8443", "fed.example.org", 8443, None),
        ("localhost:1", "localhost", 1, None),
        ("a-1.b:65535", "a-1.b", 65535, None),
        ("192.0.2.7:8443", "192.0.2.7", 8443, None),
        ("[2001:db8::7]:8443", "2001:db8::7", 8443, None),
        ("[127.0.0.1]:08443", "127.0.0.1", 8443, "127.0.0.1:8443"),
    ],
)
def test_addresses_are_read_and_written(text, host, port, again):
    assert addresses.parse(text) == (host, port)
    assert str(addresses.parse(text)) == (again or text)


BAD = [
    "", ":", "fed.example.org", "fed.example.org:", ":8443", "fed.example.org:0", "fed.example.org:65536", "x:-1", "x:+1",
    "x:1.5", "x: 1", "x:٣", "x:" + "9" * 5000, "2001:db8::7:8443", "[2001:db8::7:8443", "[]:1", "[fe80::1%eth0]:1",
    "1.2.3:1", "1.2.3.256:1", "-x:1", "x-:1", "a..b:1", "x.:1", "bücher.example:1", "a b:1", "https://fed.example.org:1",
    "a;b:1", "a{b:1", "$host:1", "a\n:1", "x" * 64 + ":1", ".".join(["abc"] * 64) + ":1",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_one_sentence(text):
    with pytest.raises(
        FileError, match=r"^--address is .*, expected HOST:PORT such as fed.example.org:8443, "
    ) as caught:
        addresses.parse(text, "--address")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["0.0.0.0:8443", "[::]:8443", "[0:0::0]:8443"])
def test_sites_cannot_connect_to_all_addresses(text):
    with pytest.raises(
        FileError, match="to which no site can connect; write the name or the IP address by which sites"
    ):
        addresses.parse_reachable(text)
    assert str(addresses.parse_listen(text)) == text


def test_a_server_listens_on_an_ip_address():
    with pytest.raises(
        FileError, match=r"listen is 'localhost:80', expected an IP address .* or 0\.0\.0\.0:80 for all"
    ):
        addresses.parse_listen("localhost:80")


@pytest.mark.parametrize(
    ("address", "listen"),
    [
        ("localhost", "127.0.0.1"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("fed.example.org", "0.0.0.0"),
    ],
)
def test_where_a_server_listens_unless_said(address, listen):
    assert addresses.default_listen(Address(address, 8443)) == (listen, 8443)
