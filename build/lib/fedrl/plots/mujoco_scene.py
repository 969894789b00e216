"""MuJoCo's bodies as pictures, drawn off screen. MuJoCo reads MUJOCO_GL when it is imported: `prepare` comes before that."""

import ctypes.util
import os
import sys
from typing import Any

import numpy as np

from fedrl.plots.clip import Scene

LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}  # what MUJOCO_GL may say to draw without a screen -> what it wants
PACKAGES = {"egl": "libegl1 libegl-mesa0", "osmesa": "libosmesa6"}
HEIGHT, WIDTH = 270, 480


class RenderingUnavailable(ValueError):
    """There is no off-screen OpenGL; the message is one sentence for the user."""


def prepare() -> None:
    """Choose an off-screen OpenGL that is installed, unless MUJOCO_GL says which. Harmless where nothing is drawn."""
    wanted = os.environ.get("MUJOCO_GL", "").lower().strip()
    if wanted in LIBRARIES and not _installed(wanted):
        raise RenderingUnavailable(
            f"MUJOCO_GL={wanted} wants {LIBRARIES[wanted]}, which is not installed; "
            f"`apt install {PACKAGES[wanted]}`, or unset MUJOCO_GL"
        )
    if not wanted and sys.platform == "linux":
        there = [name for name in LIBRARIES if _installed(name)]
        os.environ.update({"MUJOCO_GL": there[0]} if there else {})


def scene(model: Any) -> Scene:
    """What the model's own camera that follows the body sees; a pose is qpos. Without shadows, which take most time."""
    import mujoco

    flags = mujoco.mjtRndFlag
    model.vis.quality.offsamples = 0
    data = mujoco.MjData(model)
    try:
        renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    except (ImportError, RuntimeError, OSError, AttributeError, mujoco.FatalError) as error:
        raise RenderingUnavailable(
            f"MuJoCo cannot draw off screen here ({type(error).__name__}: {error}); `apt install {PACKAGES['egl']}` and "
            f"set MUJOCO_GL=egl, or `apt install {PACKAGES['osmesa']}` and set MUJOCO_GL=osmesa"
        ) from error
    renderer.scene.flags[flags.mjRND_SHADOW] = renderer.scene.flags[flags.mjRND_REFLECTION] = False

    def build(axes: Any) -> Any:
        picture = axes.imshow(np.zeros((HEIGHT, WIDTH, 3), np.uint8))

        def move(pose: np.ndarray) -> None:
            data.qpos[:] = pose
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera="track")
            picture.set_data(renderer.render())

        return move

    return build


def _installed(name: str) -> bool:
    return ctypes.util.find_library(LIBRARIES[name]) is not None
