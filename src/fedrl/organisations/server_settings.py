"""`server.toml`: where the server listens, and what sites connect to."""

from typing import NamedTuple

from fedrl.organisations import addresses, tables
from fedrl.organisations.addresses import Address
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.tables import FileError, Key

TOP = {"address": Key((str,)), "listen": Key((str,)), "proxy": Key((bool,), True)}
LOOPBACK = "127.0.0.1"


class ServerSettings(NamedTuple):
    address: Address  # what sites connect to; the certificate names its host
    listen: Address  # on this machine
    proxy: bool  # False: Flower's SuperLink itself listens there, which only loopback may see


def read(files: ServerFiles) -> ServerSettings:
    where = str(files.settings)
    top = tables.fields(tables.read(files.settings), TOP, where)
    listen = addresses.parse_listen(top["listen"], f"{where}: listen")
    if not top["proxy"] and listen.host != LOOPBACK:
        raise FileError(
            f"{where}: proxy = false is for trying a federation on one machine, listening on {LOOPBACK}, and listen is "
            f"{listen}: without nginx whoever reaches that port can submit runs and register keys; remove that line"
        )
    return ServerSettings(addresses.parse_reachable(top["address"], f"{where}: address"), listen, top["proxy"])
