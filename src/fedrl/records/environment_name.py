"""Which environment a run was in, from its run.toml: whether two runs' are the same, and a short name for people."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.records.run_toml import RunFolderError, read_config

UNKNOWN = "an environment that was not recorded"


class EnvironmentName(NamedTuple):
    identity: str  # equal for the same environment with the same settings, whatever clients' parameters are
    name: str


def of_folder(folder: Path) -> EnvironmentName:
    """That of a run of `fedrl.train`, or of an arm of a recipe."""
    try:
        environment = read_config(folder)["federation"]["environment"]
    except (RunFolderError, KeyError, TypeError):  # an earlier version did not record it
        return EnvironmentName(f"unknown {folder.resolve()}", UNKNOWN)
    return EnvironmentName(json.dumps(environment, sort_keys=True), _name(environment))


def _name(environment: Any) -> str:
    """`CartPole-v1` of Gymnasium, `cart_pole`, or the function that makes it."""
    if not isinstance(environment, dict):
        return str(environment)
    make = _look_up(environment, "open", "make_copy", "make_env")
    if isinstance(make, dict) and make.get("function") == "gymnasium.make":
        return str(make.get("id"))
    for value in (make, environment.get("step"), environment.get("open"), environment.get("make")):
        named = value.get("function") if isinstance(value, dict) else value
        if isinstance(named, str):
            return named.removesuffix(".environment")
    return str(environment.get("kind") or environment.get("function"))


def _look_up(tree: Any, *names: str) -> Any:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree
