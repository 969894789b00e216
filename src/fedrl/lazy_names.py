"""Names of a package that are imported when first used (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for `package`. `homes` says where each name is: "module:object", or "module" itself."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(homes)}")
        module, _, item = homes[name].partition(":")
        found = import_module(f"{package}.{module}")
        return getattr(found, item) if item else found

    return get, lambda: sorted(homes)
