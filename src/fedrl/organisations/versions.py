"""Versions of the packages that decide whether two machines can work together: [versions] of federation.toml."""

import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("fedrl", "flwr", "jax", "jaxlib", "numpy")
MISSING = "not installed"


def installed() -> dict[str, str]:
    """What is installed here, and Python as 3.11."""
    return {"python": ".".join(map(str, sys.version_info[:2]))} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return MISSING
