"""Reading TOML strictly: an unknown key or a value of another kind is one sentence that names the file and the key."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.errors import FedRLError

Table = Mapping[str, Any]
REQUIRED = object()
LARGEST = 1e300  # of a number whose key says no limit


class FileError(FedRLError, ValueError):
    """A file of a federation cannot be used; the message says why."""


class Key(NamedTuple):
    """What may stand under a key."""

    kinds: tuple[type, ...]
    default: Any = REQUIRED
    least: float | None = None  # of a number
    most: float | None = None


KIND_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


def read(path: Path) -> dict[str, Any]:
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file: editors on Windows may have changed its line endings and put a mark (BOM) in front."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise FileError(f"{path} is not there; `fedrl federation init` writes it, or ask the operator for it") from None
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path} is not text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({error.strerror}); it must be a file that this user may read"
        ) from None


def parse(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise FileError(f"{where} is not TOML: {error}; correct that line") from None


def fields(table: Table, known: Mapping[str, Key], where: str) -> dict[str, Any]:
    """The values of all `known` keys; `where` names the file and the table in messages."""
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise FileError(f"{where}: there is no key {name!r}; {hint}")
    return {name: _value(table, name, key, where) for name, key in known.items()}


def _value(table: Table, name: str, key: Key, where: str) -> Any:
    if name not in table:
        if key.default is REQUIRED:
            raise FileError(f"{where} has no {name}; add {name} = …, {KIND_NAMES[key.kinds[0]]}")
        return key.default
    value = table[name]
    kinds = (*key.kinds, int) if float in key.kinds else key.kinds
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in key.kinds):
        wanted = " or ".join(KIND_NAMES[kind] for kind in key.kinds)
        raise FileError(f"{where}: {name} expects {wanted}, got {value!r:.60}; correct that line")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_range(value, name, key, where)
    return value


def _check_range(value: float, name: str, key: Key, where: str) -> None:
    low, high = (-LARGEST if key.least is None else key.least), (LARGEST if key.most is None else key.most)
    if not low <= value <= high:  # nor is NaN
        limits = "finite" if key.least is None else f"at least {low:.10g}"
        limits = limits if key.most is None else f"from {low:.10g} to {high:.10g}"
        raise FileError(f"{where}: {name} must be {limits}, got {value!r:.60}; correct that line")
