"""The six task types of ALFWorld (fedagent §3.1): their rooms, their sentences and their goals."""

from typing import NamedTuple

PLACE = (
    "(exists (?r - receptacle) (exists (?o - object) (and (objectType ?o {thing}Type) (receptacleType ?r {place}Type)"
    " {made} (inReceptacle ?o ?r))))"
)
PLACE_TWO = (
    "(exists (?r - receptacle) (exists (?o - object) (and (objectType ?o {thing}Type) (receptacleType ?r {place}Type)"
    " (inReceptacle ?o ?r) (exists (?p - object) (and (not (= ?o ?p)) (objectType ?p {thing}Type) (inReceptacle ?p ?r))))))"
)
IN_LIGHT = (
    "(and (exists (?t - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?t {place}Type) (toggleable ?t)"
    " (isToggled ?t) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?t ?r)))"
    " (exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o))))"
)


class Task(NamedTuple):
    alfred: str  # its name in ALFRED's files
    games: int  # how many of ALFWorld's 3,553 training games are of this type
    sentences: tuple[str, str]
    rooms: tuple[str, ...]
    goal: str  # of {thing} and {place}, the latter a lamp for Look
    able: str = ""  # what the thing must be
    tool: str = ""  # the receptacle that brings it into that state
    verb: str = ""
    things: int = 1  # how many to place


def _state_goal(able: str, state: str) -> str:
    return PLACE.replace("{made}", f"({able} ?o) ({state} ?o)")


EVERYWHERE = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")
TASKS = {
    "Pick": Task(
        "pick_and_place_simple",
        790,
        ("put a {thing} in {place}", "put some {thing} on {place}"),
        EVERYWHERE,
        PLACE.replace("{made}", ""),
    ),
    "Look": Task(
        "look_at_obj_in_light",
        308,
        ("look at {thing} under the {place}", "examine the {thing} with the {place}"),
        ("LivingRoom", "Bedroom"),
        IN_LIGHT,
    ),
    "Clean": Task(
        "pick_clean_then_place_in_recep",
        650,
        ("put a clean {thing} in {place}", "clean some {thing} and put it in {place}"),
        ("Kitchen", "Bathroom"),
        _state_goal("cleanable", "isClean"),
        "cleanable",
        "SinkBasin",
        "clean",
    ),
    "Heat": Task(
        "pick_heat_then_place_in_recep",
        459,
        ("put a hot {thing} in {place}", "heat some {thing} and put it in {place}"),
        ("Kitchen",),
        _state_goal("heatable", "isHot"),
        "heatable",
        "Microwave",
        "heat",
    ),
    "Cool": Task(
        "pick_cool_then_place_in_recep",
        533,
        ("put a cool {thing} in {place}", "cool some {thing} and put it in {place}"),
        ("Kitchen",),
        _state_goal("coolable", "isCool"),
        "coolable",
        "Fridge",
        "cool",
    ),
    "Pick2": Task(
        "pick_two_obj_and_place",
        813,
        ("put two {thing} in {place}", "find two {thing} and put them in {place}"),
        EVERYWHERE,
        PLACE_TWO,
        things=2,
    ),
}
BY_ALFRED = {task.alfred: name for name, task in TASKS.items()}
