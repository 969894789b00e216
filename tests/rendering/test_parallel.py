"""Clips of PettingZoo environments: drawn by their own renderer, in a process of their own, while all clients act."""

import re
from functools import partial

import numpy as np
import pytest
from PIL import Image
from support.climbers import STEPS, Broken, Climbers, Dark, Plain

import fedrl
from fedrl.algorithms.fmarl import fmarl
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import sampled_return
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.rendering import clip_of_client
from fedrl.rendering.own_renderer import CannotRender, ask_for_pictures, draw_shared

METHOD = fmarl(gradient_learner(reinforce(horizon=3, batch=1), eta=1e-3, local_steps=1), tau=1)


@pytest.fixture(scope="module")
def run() -> fedrl.Run:
    where, look = fedrl.pettingzoo(Climbers, max_episode_steps=50), sampled_return(1, horizon=3)
    return fedrl.train(METHOD, where, rounds=1, engine=one_at_a_time(), evaluation=look)


def test_all_clients_act_and_one_is_told_of(run, tmp_path):
    clip = clip_of_client.draw(run.restore(), 1, tmp_path / "clip.gif")
    assert (clip.steps, clip.earned) == (STEPS, 10.0 * STEPS)
    assert (clip.shown.steps.tolist(), clip.shown.rate) == (list(range(STEPS + 1)), 20)
    with Image.open(clip.path) as image:
        assert image.n_frames == STEPS + 1


def test_the_pictures_are_of_this_episode(run):
    it = run.restore()
    row, _ = clip_of_client.describe_client(it, 0)
    poses, rewards = clip_of_client.episodes.act(it, row, 0, 4)[:2]
    assert rewards.tolist() == [1.0] * 4
    heights = np.stack([(poses[:, :, 8, 0] == 0).sum(axis=1), (poses[:, :, 28, 0] == 0).sum(axis=1)])
    assert (heights[:, 0] == 0).all()
    assert np.isin(np.diff(heights), [1, 2, 3]).all()
    assert (heights[0] != heights[1]).any()


@pytest.mark.parametrize(
    ("make_env", "sentence"),
    [
        (Dark, "the clients' environment, Dark, gives no pictures: its metadata\\['render_modes'\\] is \\['human'\\]"),
        (Plain, "Plain, gives no pictures: its metadata\\['render_modes'\\] is \\[\\], expected 'rgb_array'"),
        (Broken, "renderer raised OSError: no lamp; install what it needs or fix its render"),
        (partial(Climbers, render_mode="human"), "as it was made; pass render_mode='rgb_array' to it in make_env"),
    ],
)
def test_why_there_are_none(make_env, sentence):
    env = make_env()
    ask_for_pictures(env)
    env.reset()
    said, _ = draw_shared(env)
    assert re.search(sentence, said)
    assert "\n" not in said


def test_the_sentence_comes_from_the_environments_process(run, tmp_path):
    it = run.restore()._replace(federation=fedrl.pettingzoo(Broken, max_episode_steps=50))
    with pytest.raises(CannotRender, match="renderer raised OSError: no lamp"):
        clip_of_client.draw(it, 0, tmp_path / "clip.gif")


def test_pettingzoos_own(run, tmp_path):
    pytest.importorskip("pygame")
    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    it = run.restore()._replace(federation=fedrl.pettingzoo(rps.parallel_env, max_episode_steps=4))
    row, _ = clip_of_client.describe_client(it, 1)
    poses = clip_of_client.episodes.act(it, row, 0, None).poses
    assert poses.shape[0] == 5
    assert (poses[0] != poses[-1]).any()
