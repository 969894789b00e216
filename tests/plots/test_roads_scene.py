"""Roads and vehicles as they are drawn (about 2 s)."""

import numpy as np
import pytest

from fedrl.environments.traffic.car_following import END, ENTRY, EXIT, HALF, ROUND
from fedrl.plots import clip, figure_eight_road, roads_scene
from fedrl.plots.roads_scene import HUMAN, LEARNING, OWN


def test_the_way_round_closes_and_crosses_itself():
    x = np.arange(0.0, ROUND, 0.01)
    places = figure_eight_road.placed(x)
    apart = np.linalg.norm(np.diff(places[:, :2], axis=0, append=places[:1, :2]), axis=1)
    assert 0.007 < apart.min() < apart.max() < 0.011, "nobody jumps; straight roads are drawn a little short"
    turn = np.diff(places[:, 2], append=places[:1, 2])
    assert np.abs((turn + 180.0) % 360.0 - 180.0).max() < 0.03
    middle = (ENTRY + EXIT) / 2
    np.testing.assert_allclose(figure_eight_road.placed([middle, HALF + middle]), [[1.6, 1.6, 0.0], [1.6, 1.6, 270.0]])


@pytest.mark.parametrize(
    ("along", "where", "heading"),
    [(0.0, (1.6, -30.0), 0.0), (END + (HALF - END) / 3, (30.0, 58.4), 90.0), (HALF + END, (-30.0, 1.6), 270.0)],
)
def test_places(along, where, heading):
    np.testing.assert_allclose(figure_eight_road.placed(along), [*where, heading], atol=1e-9)


def test_it_is_sumos_network():
    """Every lane's middle line as netconvert draws it, but for its shift to the first quadrant."""
    pytest.importorskip("libsumo")
    from fedrl.environments.traffic.sumo import network, roads

    ours = figure_eight_road.placed(np.arange(0.0, ROUND, 0.05))[:, :2]
    for name, shape in network.build(roads.figure_eight()).shapes.items():
        for point in shape - 60.0:
            assert np.linalg.norm(ours - point, axis=1).min() < 0.2, name


def test_a_ribbon_is_as_wide_as_its_lane():
    sides = roads_scene._ribbon(np.array([[0.0, 0.0], [0.0, 0.0], [10.0, 0.0], [20.0, 0.0]]), 3.0)
    np.testing.assert_allclose(sides[:3], [[0.0, 1.5], [10.0, 1.5], [20.0, 1.5]])
    np.testing.assert_allclose(sides[3:], [[20.0, -1.5], [10.0, -1.5], [0.0, -1.5]])
    assert len(roads_scene._ribbon(np.zeros((2, 2)), 3.0)) == 0, "a lane that is a point"


def test_vehicles_lie_behind_their_front_bumper():
    eastward = roads_scene._rectangle(np.array([10.0, 2.0, 90.0, HUMAN]), 2.0)
    np.testing.assert_allclose(sorted(eastward.tolist()), [[5.0, 1.0], [5.0, 3.0], [10.0, 1.0], [10.0, 3.0]])


def test_colours_and_the_ring_tell_who_drives():
    lanes = [np.array([[0.0, 0.0], [100.0, 0.0]])]
    poses = np.array([[[20.0, 0.0, 90.0, who], [80.0, 0.0, 90.0, HUMAN], [np.nan] * 4] for who in (LEARNING, OWN)])
    size = roads_scene.size(lanes)
    first, second = (
        picture.reshape(-1, 3).tolist() for picture in clip.frames(roads_scene.scene(lanes), poses, ["", ""], size)
    )
    for fill, more in zip(roads_scene.FILLS, (0, -1, 1), strict=True):
        colour = [int(fill[i : i + 2], 16) for i in (1, 3, 5)]
        counts = [picture.count(colour) for picture in (first, second)]
        assert np.sign(counts[1] - counts[0]) == more, fill
        assert min(counts) > 0, "the legend has them all"
