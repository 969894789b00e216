"""An environment's own renderer, `render_mode="rgb_array"`: asked for a picture, in whichever process it is."""

import os
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from fedrl.errors import FedRLError

MODE = "rgb_array"
RATE = 30.0  # steps a second, of an environment that does not say
NOTHING = (
    "there is nothing to draw in this run; cart-pole, mountain car, half-cheetah, walker2d, hopper, traffic and "
    "environments of Gymnasium and PettingZoo can be played, and `fedrl evaluate` prints the clients' returns"
)


class CannotRender(FedRLError, ValueError):
    """The environment gives no pictures; the message is one sentence for the user."""


def expect_no_screen() -> None:
    """Environments draw with SDL, which complains of a missing screen though pictures need none."""
    if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def metadata_of(env: Any) -> dict[str, Any]:
    return getattr(env, "metadata", None) or {}


def seconds_of(env: Any) -> float:
    """That a step takes."""
    return 1.0 / float(metadata_of(env).get("render_fps") or RATE)


def ask_for_pictures(env: Any) -> None:
    """Of an environment that was not asked when it was made; most can give them at any time."""
    own = env.unwrapped
    if getattr(own, "render_mode", None) is None and MODE in (metadata_of(env).get("render_modes") or []):
        with suppress(AttributeError):  # it can only be given when the environment is made
            own.render_mode = MODE


def picture_of(env: Any) -> np.ndarray | None:
    """What the environment draws now; None if it does not draw."""
    if getattr(env.unwrapped, "render_mode", None) != MODE:
        return None
    try:
        picture = np.asarray(env.render())
    except Exception as error:
        raise CannotRender(
            f"the environment's renderer raised {type(error).__name__}: {error}; install what it needs or fix its render"
        ) from error
    drawn = picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8
    return picture if drawn else None


def advice(whose: str, env: Any) -> str:
    """Why `whose` environment gives no pictures, and what to do."""
    name, modes = type(env.unwrapped).__name__, metadata_of(env).get("render_modes") or []
    if MODE not in modes:
        return (
            f"{whose} environment, {name}, gives no pictures: its metadata['render_modes'] is {list(modes)}, "
            f"expected {MODE!r} among them; `fedrl evaluate` prints the clients' returns"
        )
    return (
        f"{whose} environment, {name}, gives no pictures as it was made; pass render_mode={MODE!r} to it in "
        "make_env and train again"
    )


def draw_shared(env: Any) -> tuple[np.ndarray | str, float]:
    """For an environment in a process of its own: its picture, or why there is none; and the seconds of a step."""
    try:
        picture = picture_of(env)
    except CannotRender as error:
        return str(error), 0.0
    return advice("the clients'", env) if picture is None else picture, seconds_of(env)
