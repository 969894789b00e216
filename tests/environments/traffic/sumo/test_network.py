"""Roads become SUMO networks, once (about 1 s)."""

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from fedrl.environments.traffic.sumo import network, roads
from fedrl.environments.traffic.sumo.roads import Edge, Node, Road


def right_of_way(net):
    """Link states at junctions: "M" goes first, "m" yields."""
    links = ElementTree.parse(net.file).getroot().iter("connection")
    return {(link.attrib["from"], link.attrib["to"]): link.attrib["state"] for link in links}


def test_figure_eight():
    net = network.build(roads.figure_eight())
    lanes = network.lanes_along(net, [*roads.EIGHT, "bottom"])
    assert lanes[0] == lanes[-1] == "bottom_0"
    assert sum(net.lengths[lane] for lane in lanes[:-1]) == pytest.approx(421.94)
    assert set(lanes) == set(net.lengths), "the way round leads over every lane"
    assert [net.lengths[net.inside[pair]] for pair in roads.CROSSING] == [9.4, 9.4]
    assert [right_of_way(net)[pair] for pair in roads.CROSSING] == ["M", "m"]
    for lane, after in pairwise(lanes):
        np.testing.assert_allclose(net.shapes[lane][-1], net.shapes[after][0], atol=0.02)


def test_merge_lets_the_ramp_go_first():
    net = network.build(roads.merge())
    assert right_of_way(net)["bottom", "center"] == "M"
    assert right_of_way(net)["left", "center"] == "m"
    highway, ramp = (network.lanes_along(net, way) for way in (roads.HIGHWAY, roads.RAMP))
    assert sum(net.lengths[lane] for lane in highway) == pytest.approx(724.63)
    assert sum(net.lengths[lane] for lane in ramp) == pytest.approx(323.05)


def test_built_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = network.build(roads.merge())
    first.file.write_text(first.file.read_text().replace("24.53", "24.54"))
    assert network.build(roads.merge()).lengths[":center_1_0"] == 24.54, "it was built again"
    longer = network.build(roads.merge(before=600.0))
    assert longer.file != first.file
    assert longer.lengths["left_0"] == 600.0
    assert sorted(first.file.parent.iterdir()) == sorted([first.file, longer.file]), "scratch was left behind"


def test_a_road_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    road = Road((Node("here", 0.0, 0.0), Node("there", 9.0, 0.0)), (Edge("way", "here", "nowhere", 9.0),))
    with pytest.raises(RuntimeError, match="netconvert refused the road.*nowhere"):
        network.build(road)


def test_nowhere_to_keep_it(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(OSError, match="point XDG_CACHE_HOME elsewhere"):
        network.write_routes("<routes/>")


def test_no_netconvert(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(network.sumolib, "checkBinary", lambda name: str(tmp_path / name))
    with pytest.raises(ImportError, match=r"netconvert.*pip install 'fedrl\[traffic\]'"):
        network.build(roads.merge())
