"""Opening an environment on the operator's machine, to fill in its spaces in federation.toml. It need not be here."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedrl.arguments.fits import binds
from fedrl.environments import gymnasium_ids, spaces
from fedrl.organisations.templates import World

DEFAULT = "CartPole-v1"
UNKNOWN_LIMIT = 1000  # steps, for environments without a time limit


def look(environment: str) -> World:
    """The spaces of `environment`, which is a Gymnasium id or module:function. Whatever its code raises, this raises."""
    with _importable_from_here():
        env = _open(environment)
    try:
        agents = getattr(env, "possible_agents", None)
        seen, done = (getattr(env, f"{name}_space") for name in ("observation", "action"))
        if agents is not None:
            seen, done = seen(agents[0]), done(agents[0])
        limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
        kind = "gymnasium" if agents is None else "pettingzoo"
        return World(environment, spaces.describe(seen), spaces.describe(done), limit or UNKNOWN_LIMIT, kind)
    finally:
        env.close()


def _open(environment: str) -> Any:
    module, colon, function = environment.partition(":")
    if not colon:
        return gymnasium_ids.maker(environment)(0)
    make_env = getattr(importlib.import_module(module), function)
    return make_env() if binds(make_env, 0) else make_env(0)


@contextmanager
def _importable_from_here() -> Iterator[None]:
    """Modules in the working folder can be imported, as `python -m` would."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before
