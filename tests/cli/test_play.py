"""Clips are of the policy that was learnt, in the client's own world; real runs, real GIFs."""

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from support import tiny_recipes
from support.command_line import call, load_arm

from fedrl.environments.control import cart_pole
from fedrl.experiments import find
from fedrl.plots import clip, mujoco_scene
from fedrl.rendering.clip_of_client import describe_client
from fedrl.rendering.episode import act


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    before, home = find.recipe, tmp_path_factory.mktemp("home")
    for kind in ("cart-pole", "mountain car"):
        tiny_recipes.finished_run(kind, home / kind.replace(" ", "-"))
    yield home
    find.recipe = before


def frames(file: Path) -> list[np.ndarray]:
    with Image.open(file) as image:
        found = []
        for i in range(image.n_frames):
            image.seek(i)
            found.append(np.asarray(image.convert("RGB")))
    return found


@pytest.mark.parametrize(("kind", "differing"), [("cart-pole", "half_length 0.9"), ("mountain-car", "shift 1")])
def test_a_clip_moves(home, capsys, tmp_path, kind, differing):
    target = tmp_path / "clips" / "clip.gif"
    assert call("play", home / kind, "--client", 2, "--out", target, "--steps", 25) == 0
    out = capsys.readouterr().out
    assert f"client 2 {differing}" in out
    assert "frames per second" in out
    pictures = frames(target)
    assert 2 <= len(pictures) <= 26
    assert all(picture.shape == (300, 480, 3) for picture in pictures)
    assert (pictures[0][60:] != pictures[-1][60:]).any()  # below the caption
    assert target.stat().st_size < 400_000


def test_the_episode_is_the_clients_own(home):
    """Every step is one of its world, and of no other's; its own parameters decide where `alone` keeps them."""
    it = load_arm(home / "cart-pole", "alone")
    pushy = jax.tree.map(jnp.zeros_like, it.state.clients.memory)
    last = pushy.theta[-1]
    right = last._replace(bias=last.bias.at[:, 1, 1].set(50.0))  # client 1 always pushes to the right
    memory = pushy._replace(theta=(*pushy.theta[:-1], right))
    it = it._replace(state=it.state._replace(clients=it.state.clients._replace(memory=memory)))
    who, told = describe_client(it, 1)
    assert told == "half_length 0.6"
    episode = act(it, who, seed=0, steps=None)
    assert len(episode.poses) == len(episode.rewards) + 1 > 5

    def after(length: float) -> np.ndarray:
        env_params, where = cart_pole.params(half_length=length), cart_pole.environment()
        states = cart_pole.State(jnp.asarray(episode.poses[:-1]), jnp.zeros(len(episode.rewards), jnp.int32))
        push = lambda state: where.step(env_params, state, jnp.int32(1), jnp.zeros(4)).state.physics  # noqa: E731
        return np.asarray(jax.vmap(push)(states))

    np.testing.assert_allclose(after(0.6), episode.poses[1:], atol=1e-6)
    assert np.abs(after(0.3) - episode.poses[1:]).max() > 1e-3
    again, other = (act(it, who, seed=seed, steps=None).poses for seed in (0, 1))
    np.testing.assert_array_equal(again, episode.poses)
    assert (other[0] != episode.poses[0]).all()


@pytest.mark.parametrize(
    ("steps", "seconds", "rate"), [(1, 0.05, 20), (198, 0.02, 50), (999, 1 / 30, 20), (500, 0.008, 50)]
)
def test_timing_keeps_the_first_and_the_last_state(steps, seconds, rate):
    shown = clip.timing(steps, seconds)
    assert len(shown.steps) <= clip.MOST_FRAMES
    assert (shown.steps[0], shown.steps[-1], shown.rate) == (0, steps, rate)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--client", 3], "there is no client 3; tiny has 3, from 0 to 2"),
        (["--arm", "Pavg"], "tiny has no arm 'Pavg'; did you mean 'PAvg'?"),
        (["--out", "clip.webm"], "a clip needs a name that ends in .gif or .mp4, got clip.webm; try clip.webm.gif"),
        (["--steps", 0], "`fedrl play --help` shows what it takes"),
    ],
)
def test_bad_input_is_one_sentence(home, capsys, arguments, expected):
    assert call("play", home / "cart-pole", *arguments) == 2
    said = capsys.readouterr()
    assert expected in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_open_gl_that_is_not_there(monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(ValueError, match="`apt install libosmesa6`, or unset MUJOCO_GL"):
        mujoco_scene.prepare()


HOPPER = """
from fedrl.plots import mujoco_scene
mujoco_scene.prepare()
from support import tiny_recipes
from pathlib import Path
from fedrl.cli.play import play
tiny_recipes.finished_run("hopper", Path("run"))
play(Path("run"), 1, Path("clip.gif"), arm=None, seed=0, steps=12, best=False)
"""


@pytest.mark.skipif(not any(map(ctypes.util.find_library, ("EGL", "OSMesa"))), reason="no off-screen OpenGL")
def test_hopper_is_drawn_off_screen(tmp_path):
    """In a process of its own, as MuJoCo decides how to draw when it is imported."""
    pytest.importorskip("mujoco")
    settings = {"PYTHONPATH": os.pathsep.join(sys.path), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", HOPPER], cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    progress = ("compiling", "training: ", "finishing")
    assert not [line for line in done.stderr.splitlines() if not line.startswith(progress)]
    assert "client 1 leg_radius 0.07" in done.stdout
    pictures = frames(tmp_path / "clip.gif")
    assert len(pictures) > 5
    assert len(np.unique(pictures[0].reshape(-1, 3), axis=0)) > 20
    assert (pictures[0][60:] != pictures[-1][60:]).any()
