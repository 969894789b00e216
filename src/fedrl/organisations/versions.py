"""[versions] of federation.toml: the packages with which a federation was agreed on, and so what every machine needs.

`check` shows all that differ, `serve` and `join` refuse to start (`require`). Without the table nothing is compared here;
the handshake compares site and server in any case (`engines.versions`).
"""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from fedrl.organisations.tables import FileError

PACKAGES = ("fedrl", "flwr", "jax", "jaxlib", "numpy")
NAMES = ("python", *PACKAGES)
MISSING = "not installed"


def installed() -> dict[str, str]:
    """What is installed here, and Python as 3.11."""
    return {"python": ".".join(map(str, sys.version_info[:2]))} | {name: _version(name) for name in PACKAGES}


def differing(agreed: Mapping[str, str]) -> dict[str, str]:
    """The packages of which another version was agreed on, with that version. Python may differ: `python` is advice."""
    here = installed()
    return {name: agreed[name] for name in PACKAGES if name in agreed and agreed[name] != here[name]}


def install(wanted: Mapping[str, str]) -> str:
    """The command that installs these versions."""
    return "pip install " + " ".join(f"'{name}=={number}'" for name, number in wanted.items())


def require(agreed: Mapping[str, str]) -> None:
    """Raise unless this machine has what was agreed on."""
    here, others = installed(), differing(agreed)
    if others:
        words = ", ".join(f"{name} {number} (here: {here[name]})" for name, number in others.items())
        raise FileError(
            f"federation.toml [versions] needs {words}; {install(others)}, or agree on other versions and hand the file out"
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return MISSING
