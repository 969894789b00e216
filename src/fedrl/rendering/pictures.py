"""The pictures of an episode that an environment has drawn itself."""

from typing import Any

import numpy as np

from fedrl.plots import clip
from fedrl.plots.clip import Episode


class Pictures:
    """Those of one episode: every k-th, so that they stay few, and the last."""

    def __init__(self) -> None:
        self.by_step: dict[int, np.ndarray] = {}
        self.time, self.stride = 0, 1

    def wanted(self, last: bool) -> bool:
        """One more step is taken: whether its picture is to be kept."""
        self.time += 1
        return last or self.time % self.stride == 0

    def keep(self, picture: np.ndarray) -> None:
        self.by_step[self.time] = picture
        if len(self.by_step) >= clip.MOST_FRAMES:
            self.stride *= 2
            self.by_step = {t: it for t, it in self.by_step.items() if t % self.stride == 0 or t == self.time}

    def episode(self, rewards: np.ndarray, seconds: float) -> Episode:
        """For steps that take `seconds`."""
        steps = np.array(sorted(self.by_step))
        poses = np.stack([self.by_step[t] for t in steps])
        height, width = poses.shape[1:3]
        size = clip.SIZE[0], min(clip.SIZE[0] * height / width, 2 * clip.SIZE[0]) + 0.6
        return Episode(poses, rewards, _scene, seconds, size=size, shown=clip.paced(steps, self.stride, seconds))


def _scene(axes: Any) -> Any:
    picture: Any = None

    def move(pose: np.ndarray) -> None:
        nonlocal picture
        if picture is None:
            picture = axes.imshow(pose)
        picture.set_data(pose)

    return move
