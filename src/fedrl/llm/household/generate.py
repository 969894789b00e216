"""Generated games: any number, of all six types, each a function of its split, its index and a seed.

Every game can be won by construction: the things to be placed are outside every receptacle of the wanted class, in one that
can be reached and opened, and the room has the sink, microwave, fridge or lamp that the task needs.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fedrl.llm.household.game import Game, Scene
from fedrl.llm.household.rooms import CAN_BE, LAMP_STANDS, PLANS, ROOMS, UNSEEN_PLANS, fits, receptacles
from fedrl.llm.household.tasks import TASKS, Task

SPLITS = ("train", "valid_seen", "valid_unseen")


class Size(NamedTuple):
    """How much is in a room. The default is about what ALFWorld's games have."""

    receptacles: int = 99  # at most, of those the floor plan has; those the task needs are always there
    objects: tuple[int, int] = (8, 18)  # fewest and most of those the task does not need


def game(split: str, index: int, seed: int = 0, types: Sequence[str] = tuple(TASKS), size: Size = Size()) -> Game:
    """Game `index` of a split. Types are drawn as often as ALFWorld's training games have them."""
    if split not in SPLITS:
        raise ValueError(f"a split is one of {', '.join(SPLITS)}, got {split!r}")
    unknown = set(types) - TASKS.keys()
    if unknown or not types:
        raise ValueError(f"task types are of {', '.join(TASKS)}, got {', '.join(map(str, types)) or 'none'}")
    rng = np.random.default_rng([seed, SPLITS.index(split), index])
    shares = np.array([TASKS[name].games for name in types], float)
    name = str(rng.choice(list(types), p=shares / shares.sum()))
    scene = _scene(TASKS[name], split, size, rng)
    sentence = TASKS[name].sentences[rng.integers(2)].format(thing=scene.thing.lower(), place=scene.place.lower())
    title = f"{TASKS[name].alfred}-{scene.thing}-None-{scene.place}-{floor_plan(scene)}"
    return Game(f"{split}/{title}/trial_{seed}_{index:05d}", name, sentence, scene)


def _scene(task: Task, split: str, size: Size, rng: np.random.Generator) -> Scene:
    room = str(rng.choice(task.rooms))
    plan = int(rng.choice([plan for plan in PLANS if (plan in UNSEEN_PLANS) == (split == "valid_unseen")]))
    furniture = receptacles(room, plan)
    thing, place = _goal(task, room, furniture, rng)
    needed = ((place,), (task.tool,), LAMP_STANDS if ROOMS[room].lamp else (), _homes(thing, furniture) - {place})
    furniture = _furnish(furniture, needed, size.receptacles, rng)
    objects = [(thing, i) for i in _spots(thing, furniture, rng, task.things + int(rng.integers(2)), barred=place)]
    if ROOMS[room].lamp:
        stands = [i for i, receptacle in enumerate(furniture) if receptacle in LAMP_STANDS]
        objects.append((ROOMS[room].lamp, int(rng.choice(stands))))
    others = [other for other in ROOMS[room].objects.split() if other != thing]
    for other in rng.choice(others, rng.integers(size.objects[0], size.objects[1] + 1)):
        objects += [(str(other), i) for i in _spots(other, furniture, rng, 1)]
    return Scene(room, plan, furniture, tuple(sorted(objects)), thing, place)


def _goal(task: Task, room: str, furniture: tuple[str, ...], rng: np.random.Generator) -> tuple[str, str]:
    """An object that the task can change as required and that lies elsewhere, and the class of its target."""
    places = {}
    for thing in ROOMS[room].objects.split():
        homes = _homes(thing, furniture)
        if task.able and thing not in CAN_BE[task.able].split():
            continue
        if task.alfred == "look_at_obj_in_light":
            places[thing] = [ROOMS[room].lamp] if homes else []
        else:
            places[thing] = sorted(home for home in homes if home != task.tool and homes - {home})
    thing = str(rng.choice([thing for thing, where in places.items() if where]))
    return thing, str(rng.choice(places[thing]))


def _homes(thing: str, furniture: tuple[str, ...]) -> set[str]:
    return {receptacle for receptacle in furniture if fits(receptacle, thing)}


def _furnish(
    furniture: tuple[str, ...], needed: Iterable[Container[str]], most: int, rng: np.random.Generator
) -> tuple[str, ...]:
    """At most `most` receptacles, but in any case one of each group of classes in `needed`."""
    if most >= len(furniture):
        return furniture
    order = [int(i) for i in rng.permutation(len(furniture))]
    chosen = {i for group in needed for i in [j for j in order if furniture[j] in group][:1]}
    chosen |= set([i for i in order if i not in chosen][: max(0, most - len(chosen))])
    return tuple(furniture[i] for i in sorted(chosen))


def _spots(thing: str, furniture: tuple[str, ...], rng: np.random.Generator, count: int, barred: str = "") -> list[int]:
    """Places for `count` objects: indices of receptacles that fit, none of the class `barred`."""
    room = [i for i, receptacle in enumerate(furniture) if receptacle != barred and fits(receptacle, thing)]
    return [int(i) for i in rng.choice(room, count)] if room else []


def floor_plan(scene: Scene) -> int:
    """ALFRED's number of the floor plan: kitchens from 1, living rooms from 201, bedrooms 301, bathrooms 401."""
    return {"Kitchen": 0, "LivingRoom": 200, "Bedroom": 300, "Bathroom": 400}[scene.room] + scene.plan
