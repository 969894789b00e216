"""A game: a small record, and the planning problem that it describes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.llm.household import pddl
from fedrl.llm.household.phrasing import NEW, Phrasing, read_phrasing
from fedrl.llm.household.rooms import CAN_BE, LAMPS, OPENABLE, fits
from fedrl.llm.household.tasks import TASKS

CONTAINERS = ("Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot")
NAMED_BY_DOMAIN = {
    "butterknifetype": "otype",
    "knifetype": "otype",
    "fridgetype": "rtype",
    "microwavetype": "rtype",
    "sinkbasintype": "rtype",
}
START = "loc_bar_00"


class Scene(NamedTuple):
    """A furnished room and the goal in it: everything that defines a generated game."""

    room: str  # the kind of room
    plan: int  # its floor plan
    receptacles: tuple[str, ...]  # classes
    objects: tuple[tuple[str, int], ...]  # class, and which receptacle it is in
    thing: str  # the class of the goal's object
    place: str  # the class of the goal's receptacle or lamp


class Game(NamedTuple):
    name: str
    task_type: str  # a key of TASKS
    sentence: str  # the task as the player reads it
    scene: Scene | None = None  # of a generated game
    path: str = ""  # of a user's game.tw-pddl


def contents(game: Game) -> dict[str, Any]:
    """What a user's game.tw-pddl holds: `pddl_domain`, `grammar`, `pddl_problem`, `solvable`, `walkthrough`."""
    with Path(game.path).open(encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def problem(game: Game) -> pddl.Problem:
    if game.scene is None:
        return pddl.problem(contents(game)["pddl_problem"])
    return _problem_of(game.scene, TASKS[game.task_type].goal)


def phrasing_of(game: Game) -> Phrasing:
    if game.scene is not None:
        return NEW
    data = contents(game)
    return read_phrasing(data["grammar"], data["pddl_domain"])


def _problem_of(scene: Scene, goal: str) -> pddl.Problem:
    """One location for each receptacle and one in the middle of the room, where the agent starts."""
    receptacles = _identifiers(scene.receptacles)
    objects = _identifiers([thing for thing, _ in scene.objects])
    spots = [f"loc_bar_{i + 1:02d}" for i in range(len(receptacles))]
    facts: set[pddl.Fact] = {("atlocation", "agent1", START)}
    for receptacle, kind, spot in zip(receptacles, scene.receptacles, spots, strict=True):
        facts |= {("receptacletype", receptacle, _type(kind)), ("receptacleatlocation", receptacle, spot)}
        if kind in OPENABLE:
            facts.add(("openable", receptacle))
    for thing, (kind, at) in zip(objects, scene.objects, strict=True):
        facts |= {("objecttype", thing, _type(kind)), ("inreceptacle", thing, receptacles[at])}
        facts.add(("objectatlocation", thing, spots[at]))
        facts |= {(able, thing) for able, kinds in CAN_BE.items() if kind in kinds.split()}
        if kind not in LAMPS:
            facts.add(("pickupable", thing))
        if kind in CONTAINERS:
            facts.add(("isreceptacleobject", thing))
    kinds = sorted({kind for kind, _ in scene.objects})
    places = sorted(set(scene.receptacles))
    facts |= {("cancontain", _type(place), _type(kind)) for place in places for kind in kinds if fits(place, kind)}
    entities = {"agent1": "agent", START: "location"}
    entities |= {_type(kind): "otype" for kind in kinds} | {_type(place): "rtype" for place in places} | NAMED_BY_DOMAIN
    entities |= dict.fromkeys(spots, "location")
    entities |= dict.fromkeys(receptacles, "receptacle") | dict.fromkeys(objects, "object")
    tree = pddl.read(goal.replace("{thing}", scene.thing).replace("{place}", scene.place))
    return pddl.Problem(entities, frozenset(facts), pddl.formula(tree))


def _identifiers(kinds: list[str] | tuple[str, ...]) -> list[str]:
    """ALFWorld shows what stands before the first bar and a number, and calls `sink_bar_…basin` a sinkbasin."""
    counts: Counter[str] = Counter()
    names = []
    for kind in (kind.lower() for kind in kinds):
        counts[kind] += 1
        stem, tail = (kind.removesuffix("basin"), f"_bar_{kind}") if kind.endswith("basin") else (kind, "")
        names.append(f"{stem}_bar_{counts[kind]:02d}{tail}")
    return names


def _type(kind: str) -> str:
    return f"{kind.lower()}type"
