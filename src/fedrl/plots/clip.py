"""An episode as an animated GIF: which steps are shown, how fast, and the file."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fedrl.records.tensors import write_atomically

MOST_FRAMES = 200
SHORTEST, LONGEST = 2, 5  # hundredths of a second a frame is shown: what viewers keep to, and what still looks smooth
HELD = 100  # hundredths of a second the last frame stays
COLOURS = 128
SIZE = (6.4, 4.0)  # inches

Scene = Callable[[Any], Callable[[np.ndarray], None]]  # (axes) -> (pose) -> None: what moves is put where it is then


class Episode(NamedTuple):
    poses: np.ndarray  # [T + 1, ...] what is drawn: the states' numbers, for MuJoCo qpos
    rewards: np.ndarray  # [T]
    scene: Scene
    seconds: float  # that a step takes
    said: Sequence[str] = ()  # of each state, above its picture; else its step and the return so far
    size: tuple[float, float] = SIZE
    shown: "Timing | None" = None  # if given, there are poses of its steps only


class Timing(NamedTuple):
    steps: np.ndarray  # those that are shown, the first state and the last included
    hundredths: int  # of a second between two of them
    speed: float  # of the clip, in multiples of the environment's own

    @property
    def rate(self) -> float:
        """Frames a second."""
        return 100 / self.hundredths


def timing(steps: int, seconds: float) -> Timing:
    """For an episode of `steps` steps of `seconds` each: every k-th state, so that at most `MOST_FRAMES` are shown."""
    stride = -(-(steps + 1) // (MOST_FRAMES - 1))
    shown = np.unique(np.append(np.arange(0, steps + 1, stride), steps))
    return paced(shown, stride, seconds)


def paced(shown: np.ndarray, stride: int, seconds: float) -> Timing:
    """For every `stride`-th state of an episode whose steps take `seconds`."""
    hundredths = int(np.clip(round(100 * stride * seconds), SHORTEST, LONGEST))
    return Timing(shown, hundredths, 100 * stride * seconds / hundredths)


def frames(
    scene: Scene, poses: Iterable[np.ndarray], captions: Iterable[str], size: tuple[float, float] = SIZE
) -> Iterator[np.ndarray]:
    """Pictures [height, width, 3] of the poses, drawn one at a time."""
    figure = Figure(figsize=size, dpi=75, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_axis_off()
    move = scene(axes)
    title = figure.suptitle("x\nx", fontsize="medium", x=0.02, ha="left", family="monospace")
    for pose, caption in zip(poses, captions, strict=True):
        move(pose)
        title.set_text(caption)
        canvas.draw()
        yield np.array(canvas.buffer_rgba())[..., :3]


def save(pictures: list[np.ndarray], path: Path, hundredths: int) -> Path:
    """One palette for all pictures, from some of them, so that nothing flickers and the file is small."""
    images = [Image.fromarray(picture) for picture in pictures]
    some = np.concatenate([pictures[i] for i in np.unique(np.linspace(0, len(pictures) - 1, 6).astype(int))])
    palette = Image.fromarray(some).quantize(COLOURS)
    first, *rest = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    shown = [10 * hundredths] * len(rest) + [10 * HELD]
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=rest, duration=shown, loop=0, optimize=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, file.getvalue())
    return path
