"""Merge in SUMO: who holds the slots, what they see, and the speeds of known drivers (about 10 s)."""

import libsumo
import numpy as np
import pytest

from fedrl.environments.traffic.sumo import Merge

SHARED, LENGTHS = "center_0", {"highway": 724.63, "ramp": 323.05}


def slots(env):
    return [env._info(slot, 0.0, False)["vehicle"] for slot in range(len(env.possible_agents))]


def test_five_of_about_fifty(opened):
    env, held = opened(Merge), []
    for seed in range(4):
        seen = env.begin(seed)
        held.append(slots(env))
        assert 42 <= len(env.vehicles()) <= 50
        assert len(set(held[-1])) == 5
        assert {v.id for v in env.vehicles() if v.learning} == set(held[-1])
        assert (seen[:, 0] > 0.0).all()
    assert len({tuple(sorted(drawn)) for drawn in held}) == 4, "every epoch draws its own"
    places = np.sort(np.concatenate([env.begin(seed)[:, 0] for seed in range(4, 12)]))
    assert places[0] < 0.3 < 0.7 < places[-1], "they come from all along the road"


def test_a_freed_slot_is_drawn_anew_at_once(opened):
    env = opened(Merge, horizon=400)
    env.begin(0)
    before, changes = slots(env), 0
    while env.agents:
        outcome = env.advance(np.ones(5))
        here, now = set(libsumo.vehicle.getIDList()), slots(env)
        assert len(set(now)) == 5
        assert set(now) <= here
        for old, new in zip(before, now, strict=True):
            assert (old == new) == (old in here), "a slot changes hands when its vehicle leaves, and only then"
            changes += old != new
        before = now
        assert (outcome.observations[:, 0] > 0.0).all()
    assert changes > 5


def test_slots_as_in_flow(opened):
    """First come, first served, from the marked tenth of the inflow; empty slots see zeros and ignore actions."""
    env = opened(Merge, penetration=0.1, warm_up=0, horizon=500)

    def play(action):
        seen, held = [env.begin(0)], [slots(env)]
        while env.agents:
            actions = [1.0 if vehicle else action for vehicle in held[-1]]
            seen.append(env.advance(np.array(actions)).observations)
            held.append(slots(env))
        return np.array(seen), held

    seen, held = play(1.0)
    np.testing.assert_array_equal(seen, play(-1.0)[0])
    empty = np.array([[vehicle == "" for vehicle in row] for row in held])
    assert empty[0].all()
    assert not empty.all(axis=0).any(), "all were filled at some time"
    assert not seen[empty].any()
    assert (seen[~empty][:, 0] > 0.0).all()
    order = list(dict.fromkeys(vehicle for row in held for vehicle in row if vehicle))
    assert order == [f"agents.{i}" for i in range(len(order))]
    assert len(order) > 6


def test_the_one_who_came_first_is_served_first(opened):
    env = opened(Merge, slots=2, penetration=0.5, warm_up=200, horizon=200)
    env.begin(0)
    marked = sorted(int(v.id.removeprefix("agents.")) for v in env.vehicles() if v.id.startswith("agents"))
    oldest = [f"agents.{i}" for i in marked]
    assert len(oldest) > 6
    assert slots(env) == oldest[:2]
    held = slots(env)
    while env.agents:
        env.advance(np.ones(2))
        held += [v for v in slots(env) if v not in held]
    assert held[:5] == oldest[:5]


def places():
    """Every vehicle's distance to the end of the road, and the road it is on."""
    far, road = {}, {}
    lanes = {
        "highway": ["inflow_highway_0", ":left_0_0", "left_0", ":center_1_0"],
        "ramp": ["inflow_merge_0", ":bottom_0_0", "bottom_0", ":center_0_0"],
        "shared": [SHARED],
    }
    for name, row in lanes.items():
        for i, lane in enumerate(row):
            rest = row[i:] if name == "shared" else [*row[i:], SHARED]
            for v in libsumo.lane.getLastStepVehicleIDs(lane):
                far[v] = sum(map(libsumo.lane.getLength, rest)) - libsumo.vehicle.getLanePosition(v)
                road[v] = name
    return far, road


def seen_by(v, far, road):
    """What `v` should see, from a search through all vehicles."""
    length = LENGTHS["ramp" if v.startswith("ramp") else "highway"]
    ahead = [w for w in far if far[w] < far[v] and road[w] in (road[v], "shared")]
    behind = [w for w in far if length >= far[w] > far[v] and road[v] in (road[w], "shared")]
    w, z = max(ahead, key=far.__getitem__, default=""), min(behind, key=far.__getitem__, default="")
    at = {x: (1 - far[x] / length, libsumo.vehicle.getSpeed(x) / 30) for x in (v, w, z) if x}
    return w, z, (*at[v], *(at[w] if w else (1.0, 1.0)), *(at[z] if z else (0.0, 0.0)))


@pytest.mark.parametrize("setting", [{"slots": 40}, {"slots": 60, "warm_up": 0, "speed_mode": 1}])
def test_ahead_and_behind(opened, setting):
    """Also against SUMO's own leader, away from the junction. In mode 1 the highway does not wait, and the roads mix."""
    env = opened(Merge, horizon=200, **setting)
    env.begin(0)
    cases = dict.fromkeys(("nobody ahead", "nobody behind", "SUMO agrees", "from the other road"), 0)
    while env.agents:
        seen = env.advance(np.full(len(env.possible_agents), 0.5)).observations
        far, road = places()
        for v, row in zip(slots(env), seen, strict=True):
            if not v:
                continue
            ahead, behind, wanted = seen_by(v, far, road)
            np.testing.assert_allclose(row, wanted, atol=1e-5)
            assert env.observation_space("slot_0").contains(row)
            cases["nobody ahead"] += not ahead
            cases["nobody behind"] += not behind
            cases["from the other road"] += road[v] == "shared" and road.get(behind) == "ramp"
            if road[v] == "highway" and 150.0 < far[v] - 50.0 < far.get(ahead, 0.0):
                assert libsumo.vehicle.getLeader(v, 100.0)[0] == ahead
                cases["SUMO agrees"] += 1
    if setting["slots"] == 40:
        del cases["from the other road"]
    assert min(cases.values()) > 0, cases


def test_full_acceleration_is_sumos_own_driving(opened, mean_speed):
    """3 m/s² is more than SUMO's 2.6, and a command only ever slows down."""
    speeds = []
    for driver in ("agents", "sumo"):
        env = opened(Merge, driver, horizon=300)
        speeds.append(mean_speed(env, [0]))
        env.close()
    assert speeds[0] == speeds[1]
    assert mean_speed(opened(Merge, horizon=300, acceleration=0.3), [0]) < speeds[0]


def test_speed_without_agents(opened, mean_speed):
    """From an empty road, ten seeds: 8.70 ± 0.16, the reference 8.50 to 8.62. From a full one, ten seeds: 6.76 ± 0.06."""
    env = opened(Merge, "sumo", warm_up=0)
    assert mean_speed(env, [0, 1, 2]) == pytest.approx(8.6, abs=0.5)
    env.close()
    assert mean_speed(opened(Merge, "sumo"), [0]) == pytest.approx(6.76, abs=0.25)


def test_a_collision_ends_the_epoch(opened):
    """A vehicle is told to drive on whatever is in front of it."""
    env = opened(Merge)
    env.reset(seed=0)
    for _ in range(10):
        env.step({agent: np.ones(1) for agent in env.agents})
    rammer = next(v for v in libsumo.lane.getLastStepVehicleIDs("left_0"))
    libsumo.vehicle.setSpeedMode(rammer, 32)
    libsumo.vehicle.setSpeed(rammer, 30.0)
    agents = env.agents
    while env.agents:
        _, rewards, terminations, truncations, infos = env.step({agent: np.ones(1) for agent in agents})
    assert env.time < 30
    assert set(rewards.values()) == {0.0}
    assert set(terminations.values()) == {True}
    assert set(truncations.values()) == {False}
    assert all(info["crash"] for info in infos.values())


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="driver='humans', expected 'agents' or 'sumo'"):
        Merge("humans")
    with pytest.raises(ValueError, match="slots >= 1"):
        Merge(slots=0)
    with pytest.raises(ValueError, match="0 < penetration < 1"):
        Merge(penetration=1.0)
