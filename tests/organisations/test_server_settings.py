"""server.toml: what it may say of the proxy."""

import pytest

from fedrl.organisations import server_settings
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.tables import FileError


def read(home, text: str):
    files = ServerFiles(home)
    files.settings.write_text(f'address = "127.0.0.1:8443"\n{text}\n')
    return server_settings.read(files)


def test_there_is_a_proxy(tmp_path):
    assert read(tmp_path, 'listen = "0.0.0.0:8443"').proxy


def test_without_a_proxy_on_loopback(tmp_path):
    settings = read(tmp_path, 'listen = "127.0.0.1:8443"\nproxy = false')
    assert (settings.proxy, str(settings.listen)) == (False, "127.0.0.1:8443")


@pytest.mark.parametrize("listen", ["0.0.0.0:8443", "[::]:8443", "192.0.2.7:8443", "[::1]:8443"])
def test_nobody_else_may_see_a_superlink(tmp_path, listen):
    with pytest.raises(
        FileError, match=r"proxy = false is for trying a federation on one machine, listening on 127.0.0.1"
    ):
        read(tmp_path, f'listen = "{listen}"\nproxy = false')


def test_something_else_is_no_answer(tmp_path):
    with pytest.raises(FileError, match="proxy"):
        read(tmp_path, 'listen = "127.0.0.1:8443"\nproxy = "no"')
