"""A real MP4, and a sentence where its library is missing."""

import sys

import numpy as np
import pytest

from fedrl.plots import video


def test_a_film_of_odd_size(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    pictures = [np.full((31, 45, 3), shade, np.uint8) for shade in (0, 120, 240)]
    path = video.save(pictures, tmp_path / "new" / "clip.mp4", 5)
    content = path.read_bytes()
    assert content[4:8] == b"ftyp"
    assert [file.name for file in path.parent.iterdir()] == ["clip.mp4"]


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fedrl\[video\]', or write a .gif"):
        video.ffmpeg()
