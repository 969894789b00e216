"""OpenStreetMap files as environments: what is seen, done, earned and refused; seeds decide all (about 10 s)."""

import subprocess
import sys
from pathlib import Path

import libsumo
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from fedrl.environments.traffic.osm import OsmRoads, network, synthetic
from fedrl.environments.traffic.sumo.network import sumolib

VILLAGE = Path(__file__).parents[3] / "support" / "village.osm"
UP = np.array([1.0, 0.0], np.float32)
MAIN = [("10_1", 100.0), ("10_2", 130.0), ("10_2", 80.0), ("10_1", 160.0), ("10_0", 103.0), ("10_0", 60.0)]
ELSEWHERE = [("12_0", 50.0), ("12_0", 100.0), ("12_1", 150.0), ("-12_0", 50.0), ("-12_1", 150.0)]
FAR = [*ELSEWHERE, ("11#0_0", 25.0), ("11#0_0", 60.0), ("-11#1_0", 60.0), ("13#0_0", 60.0), ("-13#0_0", 60.0)]


@pytest.fixture
def opened():
    """OsmRoads, closed afterwards."""
    envs = []

    def make(path=VILLAGE, **settings):
        envs.append(OsmRoads(path, **settings))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def placed(env, places):
    """Begin with vehicles at these places, the learner at the first of them: with the first seed that does so."""
    env._places = places
    for seed in range(200):
        seen, _ = env.reset(seed=seed)
        if (libsumo.vehicle.getLaneID("learner"), libsumo.vehicle.getLanePosition("learner")) == places[0]:
            return seen
    raise AssertionError("the learner never begins at the first place")


def speeds():
    return np.array([libsumo.vehicle.getSpeed(v) for v in sorted(libsumo.vehicle.getIDList())])


def test_gymnasium_finds_nothing_wrong(opened):
    check_env(opened(horizon=20), skip_render_check=True)


def test_observation_by_hand(opened):
    """Everybody stands; distances are between bumpers of vehicles 5 m long, way 10 is 386.44 m long."""
    seen = placed(opened(), MAIN + ELSEWHERE)
    left = [0.25, 0.0, 130 / 386.44, 0.15, 0.0, 80 / 386.44]
    own = [0.55, 0.0, 160 / 386.44, 1.0, 0.0, 0.0]
    right = [0.0, 0.0, 103 / 386.44, 0.35, 0.0, 60 / 386.44]
    np.testing.assert_allclose(seen, left + own + right, atol=1e-6)


def test_speed_and_reward_by_hand(opened):
    env = opened(target_speed=12.0, max_accel=2.0, max_decel=4.0, dt=0.5)
    placed(env, MAIN + ELSEWHERE)
    for wanted, push in ((0.4, 0.4), (1.0, 0.6), (1.2, 0.2), (0.2, -0.5), (0.2, 0.0), (0.0, -1.0)):
        _, reward, terminated, truncated, info = env.step(np.array([push, 0.0], np.float32))
        assert libsumo.vehicle.getSpeed("learner") == pytest.approx(wanted)
        v = speeds()
        assert v.shape == (11,)
        target = np.full(11, 12.0)
        best = np.linalg.norm(target)
        assert reward == pytest.approx((best - np.linalg.norm(v - target)) / best)
        assert info == {"mean_speed": pytest.approx(v.mean()), "crash": False, "changed": False}
        assert not terminated
        assert not truncated
    env.target_speed = 0.01
    assert env.step(UP)[1] == 0.0, "it is never negative for speed alone"


def test_lane_changes_are_refused_for_five_steps(opened):
    """A learner that wants to change lanes all the time, on a road with two."""
    env = opened(horizon=60)
    placed(env, [("14_0", 25.0), *FAR])
    changes, lanes, costs = [], [libsumo.vehicle.getLaneID("learner")], []
    for step in range(1, 31):
        _, reward, *_, info = env.step(np.array([0.3, 1.0 if lanes[-1] == "14_0" else -1.0], np.float32))
        lanes.append(libsumo.vehicle.getLaneID("learner"))
        assert info["changed"] == (lanes[-1] != lanes[-2])
        best = env.target_speed * np.sqrt(11)
        costs.append((best - np.linalg.norm(speeds() - env.target_speed)) / best - reward)
        if info["changed"]:
            changes.append(step)
    assert changes == [1, 7, 13, 19, 25]
    assert lanes[1] == "14_1", "1 is to the left"
    np.testing.assert_allclose(costs, [0.1 if step in changes else 0.0 for step in range(1, 31)], atol=1e-9)


def test_half_a_wish_and_lanes_that_are_not_there(opened):
    env = opened()
    placed(env, [("10_2", 25.0), *FAR])
    for wish, lane in ((1.0, "10_2"), (-0.49, "10_2"), (-0.51, "10_1")):
        *_, info = env.step(np.array([0.3, wish], np.float32))
        assert libsumo.vehicle.getLaneID("learner") == lane
        assert info["changed"] == (lane == "10_1")


@pytest.mark.parametrize("where", [VILLAGE, 2, 3, 6])
def test_nobody_is_lost(opened, where):
    """In 1,000 steps with a restless learner everybody stays, and has been to many edges."""
    path = where if isinstance(where, Path) else synthetic.network(where).path
    env = opened(path, horizon=1000)
    random, visited = np.random.default_rng(0), {}
    env.reset(seed=0)
    for step in range(1000):
        seen, _, terminated, *_ = env.step(np.clip(random.normal((0.7, 0.0), 0.5), -1.0, 1.0).astype(np.float32))
        assert not terminated
        assert env.observation_space.contains(seen)
        here = {v: libsumo.vehicle.getRoadID(v) for v in libsumo.vehicle.getIDList()}
        assert len(here) == 11, step
        for v, edge in here.items():
            visited.setdefault(v, set()).add(edge)
    assert min(len(edges) for edges in visited.values()) >= 10


def test_a_learner_whose_lane_ends_gets_on(opened):
    """Lanes 1 and 2 of way 10 lead nowhere; one that never wants to change still comes off them."""
    env = opened()
    placed(env, [("10_2", 325.0), *FAR])
    for _ in range(80):
        *_, info = env.step(UP)
        assert not info["changed"], "it was not the learner who wanted it"
    assert not libsumo.vehicle.getLaneID("learner").startswith("10_")


def test_a_collision_ends_the_episode(opened):
    env = opened(speed_mode=0)
    placed(env, [("10_1", 100.0), ("10_1", 125.0), *FAR[1:]])
    for _ in range(200):
        seen, reward, terminated, truncated, info = env.step(UP)
        if terminated:
            break
        before = seen
    assert (reward, terminated, truncated, info["crash"]) == (0.0, True, False, True)
    np.testing.assert_array_equal(seen, before)
    with pytest.raises(RuntimeError, match=r"the episode is over.*reset\(\)"):
        env.step(UP)


def test_time_runs_out(opened):
    env = opened(horizon=3)
    env.reset(seed=0)
    assert [env.step(UP)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


PROGRAM = """
import sys
import numpy as np
from fedrl.environments.traffic.osm import OsmRoads, synthetic

random = np.random.default_rng(1)
for path in (sys.argv[1], synthetic.network(4).path):
    env = OsmRoads(path)
    for seed in (7, 8):
        seen, _ = env.reset(seed=seed)
        total = seen.sum(dtype=float)
        for _ in range(150):
            seen, reward, done, _, _ = env.step(random.uniform(-0.5, 1.0, 2).astype(np.float32))
            total = total * 1.01 + seen.sum(dtype=float) + reward
            if done:
                break
        print(total.hex())
    env.close()
print(*({"jax", "optax", "matplotlib"} & set(sys.modules)))
"""


def test_a_seed_gives_the_same_numbers_in_two_processes(monkeypatch):
    said = []
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        command = [sys.executable, "-c", PROGRAM, str(VILLAGE)]
        said.append(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)
    assert said[0] == said[1]
    *numbers, loaded = said[0].split("\n")[:-1]
    assert len(set(numbers)) == 4
    assert loaded == "", "the environment alone needs neither"


def test_an_episode_without_a_seed_is_the_next_one(opened):
    env = opened()
    rows = []
    for _ in range(2):
        first, _ = env.reset(seed=3)
        second, _ = env.reset()
        rows.append((first, second))
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (rows[0][0] != rows[0][1]).any()


def test_synthetic_networks_differ(opened):
    texts = [synthetic.osm(number) for number in range(10)]
    assert texts == [synthetic.osm(number) for number in range(10)]
    assert len(set(texts)) == 10
    networks = [synthetic.network(number) for number in range(10)]
    assert [net.name for net in networks] == [f"synthetic {number}" for number in range(10)]
    most_lanes = {number: max(map(len, opened(networks[number].path)._lanes.edges.values())) for number in (2, 0, 1)}
    assert most_lanes == {2: 1, 0: 2, 1: 3}
    assert len({net.target_speed for net in networks}) >= 4
    assert len({(net.max_accel, net.max_decel) for net in networks}) >= 8
    with pytest.raises(ValueError, match="number must be from 0 to 9, got 10"):
        synthetic.network(10)


def ways(*ends, tags='<tag k="highway" v="residential"/>', scale=1.0):
    """A file with ways between the nodes 1 to 4, which lie some 100 m apart."""
    lines = [
        f'<node id="{i}" lat="{0.001 * scale * (1 + i % 3):.6f}" lon="{0.001 * scale * i:.6f}"/>' for i in (1, 2, 3, 4)
    ]
    lines += [f'<way id="{a}{b}"><nd ref="{a}"/><nd ref="{b}"/>{tags}</way>' for a, b in ends]
    return f'<osm version="0.6">{"".join(lines)}</osm>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("roads, but not XML", "is not XML .*; export an area"),
        ("<gpx/>", "has no roads: expected <osm> .* got <gpx>"),
        (ways(), "has no roads: .* tagged highway"),
        (ways((1, 2), (2, 3), tags='<tag k="highway" v="footway"/>'), "has no roads on which cars could drive"),
        (ways((7, 8)), r"cannot be made into a road network \(netconvert"),
        (
            ways((1, 2), (2, 3), (2, 4), tags='<tag k="highway" v="residential"/><tag k="oneway" v="yes"/>'),
            "could drive and come back; .* a larger one",
        ),
        (
            ways((1, 2), (2, 3), (2, 4), scale=0.18),
            "[2-6] connected edges of 30 m or more have room for [2-9] vehicles, expected 2 and 11; take a larger area",
        ),
    ],
)
def test_files_that_will_not_do(tmp_path, monkeypatch, text, said):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "some.osm").write_text(text)
    with pytest.raises(ValueError, match=f"some.osm.*{said}"):
        OsmRoads(tmp_path / "some.osm")


def test_what_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"nowhere.osm cannot be read .*; pass the path of an .osm file"):
        OsmRoads(tmp_path / "nowhere.osm")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sumolib, "checkBinary", lambda name: str(tmp_path / name))
    with pytest.raises(ImportError, match=r"netconvert.*pip install 'fedrl\[traffic\]'"):
        OsmRoads(VILLAGE)
    program = "import sys; sys.modules['libsumo'] = None; import fedrl.environments.traffic.osm"
    terminated = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "libsumo" in terminated.stderr.splitlines()[-1]
    assert "pip install 'fedrl[traffic]'" in terminated.stderr.splitlines()[-1]


def test_settings_and_actions_that_will_not_do(opened):
    for wrong in ({"dt": 1.0}, {"horizon": 0}, {"max_accel": 0.0}, {"target_speed": -1.0}, {"speed_dev": -0.1}):
        with pytest.raises(ValueError, match="expected positive numbers, dt of at most 0.5"):
            OsmRoads(VILLAGE, **wrong)
    env = opened()
    with pytest.raises(RuntimeError, match=r"has not begun: call reset\(\)"):
        env.step(UP)
    env.reset(seed=0)
    for wrong in (np.zeros(1), np.array([np.nan, 0.0])):
        with pytest.raises(ValueError, match="expected an acceleration and a change of lanes"):
            env.step(wrong)
    assert len(env.vehicles()) == 11
    assert [v.id for v in env.vehicles() if v.learning] == ["learner"]


def test_built_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = network.build(VILLAGE)
    stamp = first.stat().st_mtime_ns
    assert network.build(VILLAGE) == first
    assert first.stat().st_mtime_ns == stamp
    assert network.build(VILLAGE, lefthand=True) != first


def test_a_learner_that_sumo_drives_does_not_heed_the_actions(opened):
    """It brakes for nobody's sake, and gets on."""
    episodes = []
    for push in (-1.0, 1.0):
        env = opened(driver="sumo", horizon=60)
        env.reset(seed=1)
        episodes.append([env.step(np.array([push, 1.0]))[1] for _ in range(60)])
        env.close()
    assert episodes[0] == episodes[1]
    assert max(episodes[0]) > 0.2
    with pytest.raises(ValueError, match='driver must be "agent" or "sumo", got \'me\''):
        opened(driver="me")
