"""One episode of one client as a clip: GIF or MP4."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.errors import FedRLError
from fedrl.plots import clip, mujoco_scene, video
from fedrl.plots.clip import Timing
from fedrl.rendering import episode as episodes
from fedrl.trained import Trained
from fedrl.types import Client

COMPARED = 64  # clients compared to find which parameters differ
Pictures = Iterable[np.ndarray]
Watch = Callable[
    [Pictures, int], Pictures
]  # (pictures as they are drawn, how many) -> the same, e.g. with a progress bar


class CannotPlay(FedRLError, ValueError):
    """There is no such clip; the message is one sentence for the user."""


class Clip(NamedTuple):
    path: Path
    client: int
    differs: str  # the parameters in which clients differ, with this client's values
    steps: int
    earned: float
    shown: Timing


def draw(
    it: Trained,
    client: int,
    path: Path,
    *,
    seed: int = 0,
    steps: int | None = None,
    watch: Watch = lambda pictures, count: pictures,
) -> Clip:
    """Play an episode of `client` with the policy of the run's first seed, and write it to `path`."""
    check_name(path)
    if steps is not None and steps < 1:
        raise CannotPlay(f"steps must be at least 1, got {steps}; leave it out for the whole episode")
    if it.language:
        raise CannotPlay(
            "the episodes of language agents are text; `fedrl play RUN --task 0` shows those of recipes' runs"
        )
    count = it.federation.count
    if not isinstance(client, int | np.integer) or not 0 <= client < count:
        raise CannotPlay(f"there is no client {client}; this run has {count}, from 0 to {count - 1}")
    mujoco_scene.prepare()
    row, differs = describe_client(it, client)
    episode = episodes.act(it, row, seed, steps)
    shown = episode.shown or clip.timing(len(episode.rewards), episode.seconds)
    earned = np.concatenate([[0.0], np.cumsum(episode.rewards)])
    said = episode.said or [f"step {t}  return {so_far:.1f}" for t, so_far in enumerate(earned)]
    captions = [f"client {client}  {differs}\n{said[t]}" for t in shown.steps]
    poses = episode.poses if episode.shown else episode.poses[shown.steps]
    pictures = list(watch(clip.frames(episode.scene, poses, captions, episode.size), len(shown.steps)))
    save = video.save if path.suffix.lower() == ".mp4" else clip.save
    return Clip(
        save(pictures, path, shown.hundredths), int(client), differs, len(episode.rewards), float(earned[-1]), shown
    )


def file_name(client: int, best: bool) -> str:
    """Of the clip, if none was asked for."""
    return f"client-{client}-best.gif" if best else f"client-{client}.gif"


def check_name(path: Path) -> None:
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise CannotPlay(f"a clip needs a name that ends in .gif or .mp4, got {path}; try {path}.gif")
    if path.suffix.lower() == ".mp4":
        video.ffmpeg()


def describe_client(it: Trained, client: int) -> tuple[Client, str]:
    """The client in the run's first seed, and those of its environment parameters in which clients differ."""
    federation = it.federation
    clients = jax.tree.map(lambda x: x[0], it.state.clients)
    ids = jnp.append(jnp.arange(min(federation.count, COMPARED), dtype=jnp.int32), jnp.int32(client))
    rows = federation.rows(federation.shared(), clients, ids)
    row: Client = jax.tree.map(lambda x: x[-1], rows)
    differing = [
        f"{name} {float(np.asarray(values)[-1]):.4g}"
        for name, values in zip(getattr(rows.env_params, "_fields", ()), rows.env_params, strict=False)
        if np.ndim(values) == 1 and np.ptp(np.asarray(values)) > 0
    ]
    return row, ", ".join(differing)
