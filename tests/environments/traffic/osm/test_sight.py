"""What a driver sees, and the lanes it is worked out from: computed by hand on the village (about 1 s)."""

from pathlib import Path

import numpy as np
import pytest

from fedrl.environments.traffic.osm import lanes, network
from fedrl.environments.traffic.osm.sight import Place, Sight
from fedrl.environments.traffic.sumo.network import read

VILLAGE = Path(__file__).parents[3] / "support" / "village.osm"
LONG_SIDE = 386.44  # m, of way 10 between its junctions
AHEAD, BEHIND, NONE = [1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]


def village(lefthand: bool = False) -> lanes.Lanes:
    return lanes.read(network.build(VILLAGE, lefthand=lefthand))


def test_roads_one_can_come_back_to(tmp_path, monkeypatch):
    """The way out (15) and the footpath (16) are gone; lanes and limits are those of the file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = village()
    assert {edge.strip("-").split("#")[0] for edge in found.edges} == {"10", "11", "12", "13", "14"}
    assert [len(found.edges[edge]) for edge in ("10", "-10", "11#0", "12", "14")] == [3, 3, 1, 2, 2]
    assert [found.lanes[f"{edge}_0"].limit for edge in ("10", "11#0", "12")] == [20.0, 10.0, 15.0]
    assert lanes.connected(found) == set(found.edges)


def test_connected_leaves_out_ways_in_and_out():
    def lane(edge: str) -> lanes.Lane:
        return lanes.Lane(edge, 0, 50.0, 10.0)

    ways = {"in_0": ("a_0",), "a_0": ("b_0",), "b_0": ("a_0", "out_0")}
    edges = {edge: (f"{edge}_0",) for edge in ("in", "a", "b", "out")}
    found = lanes.Lanes({f"{edge}_0": lane(edge) for edge in edges}, edges, ways, ways)
    assert lanes.connected(found) == {"a", "b"}
    assert lanes.connected(found._replace(ways={"in_0": ("a_0",)})) == set()


def test_three_lanes_by_hand():
    """The learner is on the middle lane at 100 m; a vehicle is 5 m long."""
    others = [
        Place("10_2", 130.0, 15.0),  # left, ahead: 25 m between bumpers
        Place("10_2", 190.0, 3.0),  # left, further ahead
        Place("10_2", 80.0, 6.0),  # left, behind: 15 m
        Place("10_1", 160.0, 0.0),  # own lane, ahead: 55 m
        Place("10_0", 103.0, 9.0),  # right, beside it: 0
        Place("10_0", 60.0, 12.0),  # right, behind: 35 m
        Place("-10_1", 105.0, 20.0),  # on the other side of the road: not seen
    ]
    seen = Sight(village(), lefthand=False).seen(Place("10_1", 100.0, 10.0), others)
    left = [0.25, 0.5, 130 / LONG_SIDE, 0.15, 0.2, 80 / LONG_SIDE]
    own = [0.55, 0.0, 160 / LONG_SIDE, *BEHIND]
    right = [0.0, 0.3, 103 / LONG_SIDE, 0.35, 0.4, 60 / LONG_SIDE]
    np.testing.assert_allclose(seen, left + own + right, atol=1e-6)
    assert seen.dtype == np.float32


def test_the_lane_at_the_kerb_has_nothing_on_its_right():
    sight = Sight(village(), lefthand=False)
    np.testing.assert_array_equal(sight.seen(Place("10_0", 100.0, 0.0), []), [*(AHEAD + BEHIND) * 2, *NONE * 2])
    np.testing.assert_array_equal(sight.seen(Place("11#0_0", 50.0, 0.0), []), [*NONE * 2, *AHEAD, *BEHIND, *NONE * 2])


def test_across_a_junction():
    """10_0 leads to 11#0_0, the other two lanes of 10 nowhere; what is beyond 100 m is not seen."""
    found, sight = village(), Sight(village(), lefthand=False)
    (inside,) = found.onto["10_0"]
    gap = 20.0 + found.lanes[inside].length + 30.0 - 5.0
    own, other = Place("10_0", LONG_SIDE - 20.0, 5.0), Place("11#0_0", 30.0, 12.0)
    seen = sight.seen(own, [other]).reshape(3, 2, 3)
    np.testing.assert_allclose(seen[1, 0], [gap / 100, 0.4, 30.0 / found.lanes["11#0_0"].length], atol=1e-6)
    np.testing.assert_array_equal(seen[0], [AHEAD, BEHIND])
    back = sight.seen(other, [own]).reshape(3, 2, 3)
    np.testing.assert_allclose(back[1, 1], [gap / 100, 5 / 30, 1 - 20 / LONG_SIDE], atol=1e-6)
    within = sight.seen(own._replace(position=LONG_SIDE - 20.0 - (99.0 - gap)), [other])
    beyond = sight.seen(own._replace(position=LONG_SIDE - 20.0 - (101.0 - gap)), [other])
    assert within[6] == pytest.approx(0.99)
    np.testing.assert_array_equal(beyond[6:12], AHEAD + BEHIND)


@pytest.mark.parametrize("lefthand", [False, True])
def test_left_is_left(lefthand):
    """Way 10 leads east, so that left of a lane is north of it; they drive on the side they should."""
    shapes = read(network.build(VILLAGE, lefthand=lefthand)).shapes
    sight = Sight(village(lefthand), lefthand=lefthand)
    left, right = sight.beside("10_1", 1), sight.beside("10_1", -1)
    assert shapes[left][0, 1] > shapes["10_1"][0, 1] > shapes[right][0, 1]
    assert (shapes["10_1"][0, 1] > shapes["-10_1"][0, 1]) == lefthand
    assert sight.beside("10_0", 1 if lefthand else -1) is None
