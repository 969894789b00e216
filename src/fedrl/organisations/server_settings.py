"""`server.toml`: where the server listens, and what sites connect to."""

from typing import NamedTuple

from fedrl.organisations import addresses, tables
from fedrl.organisations.addresses import Address
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.tables import Key

TOP = {"address": Key((str,)), "listen": Key((str,))}


class ServerSettings(NamedTuple):
    address: Address  # what sites connect to; the certificate names its host
    listen: Address  # of the proxy on this machine


def read(files: ServerFiles) -> ServerSettings:
    where = str(files.settings)
    top = tables.fields(tables.read(files.settings), TOP, where)
    return ServerSettings(
        addresses.parse_reachable(top["address"], f"{where}: address"),
        addresses.parse_listen(top["listen"], f"{where}: listen"),
    )
