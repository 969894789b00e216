"""What identifies a run, and how two of them differ: settings decide, versions only warn."""

import math
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax.numpy as jnp

from fedrl.federations.federation import Federation
from fedrl.records.description import describe

Config = dict[str, Any]
CODE = "the code of"  # how the phrase for different code begins
FIRST = ("recipe", "kind")  # if these differ, everything else may too
PACKAGES = ("fedrl", "jax", "jaxlib", "numpy", "optax", "gymnasium")


def of_run(
    method: Any, federation: Federation, evaluation: Any, *, seeds: range, eval_every: int, engine: str
) -> Config:
    """The arguments of `train`, except the number of rounds, which may grow. `engine` is "exact" or "vmap"."""
    return {
        "kind": "train",
        "seed": seeds.start,
        "seeds": len(seeds),
        "eval_every": int(eval_every),
        "engine": engine,
        "precision": str(jnp.result_type(float)),
        "method": describe(method),
        "federation": describe(federation) | {"clients": int(federation.count)},
        "evaluation": describe(evaluation),
    }


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # fedrl itself, if its source is on the path but not installed
        return "not installed"


def differences(there: Any, here: Any, key: str = "", *, lenient: bool = False) -> Iterator[str]:
    """One phrase for each setting that differs, the recipe first, then by name: "eta is 0.1 there, 5.0 here".

    Code is compared only between equal Python versions, and if `there` still has it. With `lenient`, a setting that only one
    side has is no difference, because another version of a package may have more or fewer settings.
    """
    there, here = _number(there), _number(here)
    if _tables(there) and _tables(here) and len(there) == len(here):
        for place, pair in enumerate(zip(there, here, strict=True)):
            yield from differences(*pair, f"{key}.{place}", lenient=lenient)
        return
    if not (isinstance(there, dict) and isinstance(here, dict)):
        if not _same(there, here):
            yield f"{key} is {_show(there)} there, {_show(here)} here"
        return
    for name in ("function", "kind"):  # another function has other settings, too
        if key and there.get(name) != here.get(name):
            yield f"{key} is {_show(there)} there, {_show(here)} here"
            return
    for name in sorted(there.keys() | here.keys(), key=lambda name: (name not in FIRST, name)):
        if name in there and name in here:
            if name == "code":
                yield from _code(there[name], here[name], key)
            else:
                yield from differences(there[name], here[name], f"{key}.{name}".lstrip("."), lenient=lenient)
        elif name == "code" and name in here:
            continue  # the user deleted the line, to continue with fixed code
        elif not lenient:
            shown = (_show(side[name]) if name in side else "not set" for side in (there, here))
            yield "{} is {} there, {} here".format(f"{key}.{name}".lstrip("."), *shown)


def _number(value: Any) -> Any:
    """`learning_rate=constant(0.1)` is `learning_rate=0.1`."""
    if isinstance(value, dict) and value.get("function") == "constant" and len(value) == 2:
        return next(item for name, item in value.items() if name != "function")
    return value


def _tables(value: Any) -> bool:
    """Whether `value` is a list that contains descriptions, not only data."""
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _code(there: Any, here: Any, key: str) -> Iterator[str]:
    python = [str(code).partition(":")[0] for code in (there, here)]
    if there != here and python[0] == python[1]:
        yield f"{CODE} {key} differs"


def _same(a: Any, b: Any) -> bool:
    """Equal in TOML: a tuple is a list, 1 is 1.0 but not true, and NaN is NaN."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return next(differences(a, b), None) is None
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _show(value: Any) -> str:
    """A function or a record by its name, anything else by its repr."""
    return value.get("function") or value.get("kind") or repr(value) if isinstance(value, dict) else repr(value)
