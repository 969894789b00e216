"""Clips of traffic: the learnt policies on the road they share, in arrays and in SUMO (about 40 s, the first time 60)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box
from PIL import Image
from support.command_line import call, load_arm
from support.tiny_traffic import LIMIT, TRAFFIC

import fedrl
from fedrl.experiments import experiment, find, orders
from fedrl.plots import clip
from fedrl.plots.roads_scene import HUMAN, LEARNING, OWN
from fedrl.records import folder
from fedrl.rendering import traffic


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    before, home = find.recipe, tmp_path_factory.mktemp("home")
    find.recipe = lambda name: TRAFFIC
    for world in ("arrays", "sumo", "merge"):
        order = orders.order("tiny", overrides={"world": world})
        with folder.claim(home / world, order.plain(), resume=False) as place:
            experiment.run(order, place, warn=print)
    yield home
    find.recipe = before


@pytest.mark.parametrize("world", ["arrays", "sumo", "merge"])
def test_a_clip_moves(home, capfd, tmp_path, world):
    target = tmp_path / "clip.gif"
    assert call("play", home / world, "--client", 2, "--out", target) == 0
    said = capfd.readouterr()
    assert "FIRL, client 2\n40 steps, return" in said.out
    assert said.err == ""
    with Image.open(target) as image:
        assert image.n_frames == 41
        pictures = []
        for i in (0, 40):
            image.seek(i)
            pictures.append(np.asarray(image.convert("RGB")))
    assert (pictures[0][60:] != pictures[-1][60:]).any()  # below the caption
    assert target.stat().st_size < 400_000


def played(home: Path, world: str, client: int, seed: int = 0) -> clip.Episode:
    """Vehicles of the Figure Eight in their order on the road; SUMO names them in that of their letters."""
    episode = traffic.act(load_arm(home / world, "FIRL"), client, seed, None)
    order = np.argsort(sorted(range(14), key=str))
    return episode._replace(poses=episode.poses[:, order]) if world == "sumo" else episode


def speeds(episode: clip.Episode) -> np.ndarray:
    return np.array([float(text.split()[-2]) for text in episode.said])


@pytest.mark.parametrize("world", ["arrays", "sumo"])
def test_fourteen_vehicles_of_which_one_is_the_clients(home, world):
    """Client 2 drives vehicle 5. What the title says is what vehicles do, and what earns the reward."""
    episode = played(home, world, 2)
    assert episode.poses.shape == (LIMIT + 1, 14, 4), "200 are usual, but this epoch has 40 steps"
    where, who = episode.poses[..., :2], episode.poses[..., 3]
    assert (who == [HUMAN, LEARNING, HUMAN, LEARNING, HUMAN, OWN] + [HUMAN, LEARNING] * 4).all()
    assert episode.said[0] == "0.0 s  mean speed 0.00 m/s"
    assert episode.said[-1].startswith("4.0 s  mean speed")
    np.testing.assert_allclose(np.minimum(speeds(episode)[1:] / 20.0, 1.0), episode.rewards, atol=1e-3)
    moved = np.linalg.norm(np.diff(where, axis=0), axis=-1).mean(axis=1) / episode.seconds
    np.testing.assert_allclose(moved, speeds(episode)[1:], rtol=0.25, atol=0.05)  # to scale, but for the straight roads


def test_both_worlds_are_drawn_in_the_same_place(home):
    arrays, sumo = (played(home, world, 0).poses[0] for world in ("arrays", "sumo"))
    np.testing.assert_allclose(arrays[:, :2], sumo[:, :2] - 60.0, atol=0.25)  # netconvert puts the corner at (0, 0)
    turned = (arrays[:, 2] - sumo[:, 2] + 180.0) % 360.0 - 180.0
    assert np.abs(turned).max() < 7.0  # SUMO looks from bumper to bumper


def test_all_see_the_same_epoch(home):
    first, other, again = (played(home, "arrays", *which) for which in ((0, 0), (3, 0), (0, 1)))
    np.testing.assert_array_equal(first.poses[..., :3], other.poses[..., :3])
    assert (first.poses[0, :, 3] != other.poses[0, :, 3]).sum() == 2
    assert (first.poses[-1, :, :3] != again.poses[-1, :, :3]).any()


def test_merge_has_a_vehicle_of_the_clients_own(home):
    """Vehicles come and go, and a client's slot goes to another when its vehicle leaves."""
    episode = played(home, "merge", 1)
    assert episode.seconds == 0.5
    there = ~np.isnan(episode.poses[..., 0])
    assert 5 < there.sum(axis=1).min() <= there.sum(axis=1).max() == episode.poses.shape[1]
    assert ((episode.poses[..., 3] == OWN).sum(axis=1) == 1).all()
    assert ((episode.poses[..., 3] == LEARNING).sum(axis=1) == 4).all()
    assert episode.size[0] > 2 * episode.size[1]


def test_what_has_no_roads_is_not_drawn(home):
    from pettingzoo import ParallelEnv

    class Room(ParallelEnv):
        possible_agents = [f"vehicle_{i}" for i in range(7)]  # noqa: RUF012
        agents = possible_agents
        metadata = {}  # noqa: RUF012

        def observation_space(self, agent):
            return Box(0, 1, (6,))

        def action_space(self, agent):
            return Box(-1, 1, (1,))

        def close(self):
            pass

    it = load_arm(home / "sumo", "FIRL")
    room = fedrl.pettingzoo(Room, max_episode_steps=LIMIT)
    assert traffic.act(it._replace(federation=room), 0, 0, None) is None


def test_arrays_are_drawn_without_sumo(home):
    """In a process that cannot import it."""
    program = f"""
import sys
for missing in ("libsumo", "sumolib", "traci", "pettingzoo"):
    sys.modules[missing] = None
from support.tiny_traffic import TRAFFIC
from fedrl.experiments import find
find.recipe = lambda name: TRAFFIC
from fedrl.engines import cache
cache.enable()
from pathlib import Path
from fedrl.cli.play import play
play(Path({str(home / "arrays")!r}), 0, Path({str(home / "clip.gif")!r}), arm=None, seed=0, steps=None, best=False)
"""
    settings = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "40 steps, return" in done.stdout
    assert (home / "clip.gif").exists()
