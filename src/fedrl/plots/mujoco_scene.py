"""MuJoCo's bodies as pictures, drawn off screen. MuJoCo reads MUJOCO_GL when it is imported: call `prepare` before that."""

import ctypes.util
import os
import sys
from typing import Any

import numpy as np

from fedrl.errors import FedRLError
from fedrl.plots.clip import Scene

LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}  # MUJOCO_GL for drawing without a screen -> the library it needs
PACKAGES = {"egl": "libegl1 libegl-mesa0", "osmesa": "libosmesa6"}
HEIGHT, WIDTH = 270, 480


class RenderingUnavailable(FedRLError, ValueError):
    """There is no off-screen OpenGL; the message is one sentence for the user."""


def prepare() -> None:
    """Choose an off-screen OpenGL that is installed, unless MUJOCO_GL names one. Harmless if nothing is drawn."""
    backend = os.environ.get("MUJOCO_GL", "").lower().strip()
    if backend in LIBRARIES and not _installed(backend):
        raise RenderingUnavailable(
            f"MUJOCO_GL={backend} needs {LIBRARIES[backend]}, which is not installed; "
            f"`apt install {PACKAGES[backend]}`, or unset MUJOCO_GL"
        )
    if not backend and sys.platform == "linux":
        available = [name for name in LIBRARIES if _installed(name)]
        os.environ.update({"MUJOCO_GL": available[0]} if available else {})


def scene(model: Any) -> Scene:
    """The view of the model's own tracking camera; a pose is qpos. Without shadows, which take most of the time."""
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
