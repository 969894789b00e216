"""Pictures as an MP4, by the ffmpeg that imageio-ffmpeg brings (the extra `video`)."""

import os
import secrets
import subprocess
from pathlib import Path

import numpy as np

from fedrl.plots.clip import HELD


def ffmpeg() -> str:
    """The program, or an error that says what to install."""
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "an .mp4 needs imageio-ffmpeg, which is not installed; pip install 'fedrl[video]', or write a .gif",
            name="imageio_ffmpeg",
        ) from None
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def save(pictures: list[np.ndarray], path: Path, hundredths: int) -> Path:
    """Every picture is shown for so many hundredths of a second, the last one longer."""
    height, width = (size - size % 2 for size in pictures[0].shape[:2])  # the codec needs even numbers
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}.mp4")
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"100/{hundredths}", "-i", "-"]
    coded = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(temporary)]
    shown = [*pictures, *[pictures[-1]] * (HELD // hundredths)]
    content = b"".join(np.ascontiguousarray(picture[:height, :width]).tobytes() for picture in shown)
    try:
        subprocess.run([ffmpeg(), "-y", "-loglevel", "error", *raw, *coded], input=content, check=True)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
