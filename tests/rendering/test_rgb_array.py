"""Pictures come from the client's own environment, few of them, or a sentence says why there are none."""

import gymnasium as gym
import numpy as np
import pytest
from support.tanks import Broken, Dark, Fixed, Tank

import fedrl
from fedrl.plots import clip
from fedrl.rendering.own_renderer import CannotRender
from fedrl.rendering.rgb_array import RenderedSimulator

ROW, SEED = np.arange(1), np.array([7], np.uint64)


@pytest.fixture(scope="module", autouse=True)
def _registered():
    gym.register("FixedTank-v0", Fixed)
    yield
    gym.registry.pop("FixedTank-v0")


def play(make_env, steps: int) -> RenderedSimulator:
    federation = fedrl.gymnasium(make_env, clients=2, max_episode_steps=steps)
    simulator = RenderedSimulator(federation.environment.open(1, np.int32(1), 1), steps)
    simulator.reset(ROW, SEED)
    for _ in range(steps):
        simulator.step(np.zeros(1, np.int32))
    return simulator


def bars(episode: clip.Episode) -> list[int]:
    """The height of the water in each picture."""
    return [int((picture[:, 20, 0] == 0).sum()) for picture in episode.poses]


@pytest.mark.parametrize(
    "make_env",
    [lambda i: Tank(0.1 * i), lambda i: gym.make("FixedTank-v0", inflow=0.1 * i)],
    ids=["as it is", "made anew from its spec"],
)
def test_it_is_the_clients_own_episode(make_env):
    simulator = play(make_env, 10)
    episode = simulator.episode(np.ones(10))
    assert (simulator.twin is not None) == ("Fixed" in str(simulator.env))
    level = bars(episode)
    assert level == sorted(level)
    assert level[-1] - level[0] in (19, 20, 21)  # client 1's inflow
    assert episode.shown.steps.tolist() == list(range(11))
    assert episode.seconds == (0.05 if simulator.twin is None else pytest.approx(0.05))
    simulator.close()


def test_what_make_env_changes_afterwards_is_not_lost():
    def make_env(i):
        env = gym.make("FixedTank-v0")
        env.unwrapped.inflow = 0.1 * i
        return env

    with pytest.raises(
        CannotRender, match="client 1's environment, Fixed, .* pass render_mode='rgb_array' to it in make"
    ):
        play(make_env, 3)


def test_a_long_episode_has_few_pictures_and_its_end():
    episode = play(lambda i: Tank(0.001), 1001).episode(np.ones(1001))
    assert 90 < len(episode.poses) == len(episode.shown.steps) <= clip.MOST_FRAMES
    assert episode.shown.steps[0] == 0
    assert episode.shown.steps[-1] == 1001
    assert bars(episode)[-1] - bars(episode)[0] == pytest.approx(20, abs=2)


@pytest.mark.parametrize(
    ("make_env", "sentence"),
    [
        (lambda i: Dark(), "Dark, gives no pictures: its metadata\\['render_modes'\\] is \\['human'\\], expected"),
        (lambda i: Broken(), "renderer raised OSError: no lamp; install what it needs or fix its render"),
        (lambda i: Fixed(), "Fixed, gives no pictures as it was made; pass render_mode='rgb_array'"),
    ],
)  # fmt: skip
def test_why_there_are_none(make_env, sentence):
    with pytest.raises(CannotRender, match=sentence):
        play(make_env, 3)


def test_gymnasiums_own():
    pytest.importorskip("pygame")
    simulator = play(lambda i: gym.make("Pendulum-v1", g=9.0 + i), 3)
    episode = simulator.episode(np.ones(3))
    assert episode.poses.shape == (4, 500, 500, 3)
    assert simulator.env.unwrapped.g == 10.0
    assert (episode.poses[0] != episode.poses[-1]).any()
    simulator.close()
