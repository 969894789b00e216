"""The pure-Python player of a game, with the commands, admissible commands and sentences of ALFWorld's engine.

It keeps the facts of the planning problem and changes them as the actions of ALFWorld's domain do. It shares three
habits of the engine: an object is examined only in the hand, `look` in the middle of the room sees nothing, and a list is in
the order of identifiers, of which the first has the highest number.
"""

from collections.abc import Callable

from fedrl.llm.household import pddl
from fedrl.llm.household.facts import comma_list, examine_sentence, names, pairs
from fedrl.llm.household.game import Game, phrasing_of, problem
from fedrl.llm.household.phrasing import HELP, NEW, Phrasing

TOOLS = {
    "clean": ("cleanable", "sinkbasintype"),
    "heat": ("heatable", "microwavetype"),
    "cool": ("coolable", "fridgetype"),
}
CHANGES = {
    "clean": ("isclean", ""),
    "heat": ("ishot", "iscool"),
    "cool": ("iscool", "ishot"),
}  # facts that become true, untrue
KNIVES = ("knifetype", "butterknifetype")

Command = tuple[Callable[..., str], tuple[str, ...]]  # a function and its arguments


class Simulator:
    """`reset()` and `step(command)` return text; `admissible` and `won` are of the state reached."""

    def __init__(self, problem: pddl.Problem, sentence: str, phrasing: Phrasing = NEW) -> None:
        self._start, self._sentence, self._phrasing = problem.facts, sentence, phrasing
        self._goal = pddl.ground(problem.goal, problem)
        self._names = names(problem.facts)
        self._where = dict(pair for pair in pairs(problem.facts, "receptacleatlocation"))
        locations = [entity for entity, kind in problem.entities.items() if kind == "location"]
        self._beside = {spot: sorted(r for r, at in self._where.items() if at == spot) for spot in locations}
        self._ways = {
            spot: {f"go to {self._names[r]}": (self._go, (r,)) for r, at in self._where.items() if at != spot}
            for spot in locations
        }
        self._kind = dict(pairs(problem.facts, "receptacletype"))
        allowed = set(pairs(problem.facts, "cancontain"))
        self._homes = {
            thing: {r for r, place in self._kind.items() if (place, kind) in allowed}
            for thing, kind in pairs(problem.facts, "objecttype")
        }
        self._agent = next(fact[1] for fact in problem.facts if fact[0] == "atlocation")
        self.reset()

    def reset(self) -> str:
        self._facts = set(self._start)
        self._inside: dict[str, set[str]] = {receptacle: set() for receptacle in self._where}
        for thing, receptacle in pairs(self._start, "inreceptacle"):
            self._inside.setdefault(receptacle, set()).add(thing)
        self._taken: set[tuple[str, str]] = (
            set()
        )  # pairs of an object and the receptacle from which it was taken, until it is put back
        self._spot = next(fact[2] for fact in self._start if fact[0] == "atlocation")
        self._held = sorted(thing for _, thing in pairs(self._start, "holds"))
        self._update()
        view = self._look() if self._beside[self._spot] else self._middle(sorted(self._where))
        return f"-= Welcome to TextWorld, ALFRED! =-\n\n{view}\n\nYour task is to: {self._sentence}."

    def step(self, command: str) -> str:
        act = self._commands.get(command.strip())
        if act is None:
            return "Nothing happens."
        text = act[0](*act[1])
        self._update()
        return text

    @property
    def admissible(self) -> list[str]:
        return sorted(self._commands)

    def _update(self) -> None:
        self.won = pddl.holds(self._goal, self._facts)
        commands: dict[str, Command] = dict(self._ways[self._spot])
        commands["look"], commands["inventory"] = (self._look, ()), (self._inventory, ())
        if self._phrasing.help:
            commands["help"] = (HELP.format, ())
        for receptacle in self._beside[self._spot]:
            self._at_receptacle(commands, receptacle)
        for thing in self._held:
            commands[f"examine {self._names[thing]}"] = (self._examine, (thing,))
            if any(("objecttype", thing, kind) in self._facts for kind in KNIVES):
                self._with_knife(commands, thing)
        self._commands = commands

    def _at_receptacle(self, commands: dict[str, Command], receptacle: str) -> None:
        facts, names, name = self._facts, self._names, self._names[receptacle]
        commands[f"examine {name}"] = (self._view, (receptacle,))
        openable, opened = ("openable", receptacle) in facts, ("opened", receptacle) in facts
        if openable:
            commands[f"close {name}" if opened else f"open {name}"] = (
                self._close if opened else self._open,
                (receptacle,),
            )
        for thing in self._inside[receptacle]:
            if not self._held and (opened or not openable) and ("pickupable", thing) in facts:
                commands[f"take {names[thing]} from {name}"] = (self._take, (thing, receptacle))
            if ("toggleable", thing) in facts:
                commands[f"use {names[thing]}"] = (self._use, (thing,))
        for thing in self._held:
            if (opened or not openable) and receptacle in self._homes.get(thing, ()):
                command = self._phrasing.put.format(o=names[thing], r=name)
                commands[command] = (self._put, (thing, receptacle))
            for verb, (able, kind) in TOOLS.items():
                if (able, thing) in facts and self._kind.get(receptacle) == kind:
                    commands[f"{verb} {names[thing]} with {name}"] = (self._make, (verb, thing, receptacle))

    def _with_knife(self, commands: dict[str, Command], knife: str) -> None:
        for thing, spot in pairs(self._facts, "objectatlocation"):
            if spot == self._spot and ("sliceable", thing) in self._facts:
                command = f"slice {self._names[thing]} with {self._names[knife]}"
                commands[command] = (self._slice, (thing, knife))

    def _go(self, receptacle: str) -> str:
        self._change(("atlocation", self._agent, self._where[receptacle]), ("atlocation", self._agent, self._spot))
        self._spot = self._where[receptacle]
        place = self._names[self._spot if self._phrasing.numbered_places else receptacle]
        return f"You arrive at {place}. {self._view(receptacle)}"

    def _open(self, receptacle: str) -> str:
        self._facts.add(("opened", receptacle))
        return f"You open the {self._names[receptacle]}. {self._view(receptacle)}"

    def _close(self, receptacle: str) -> str:
        self._facts.discard(("opened", receptacle))
        return f"You close the {self._names[receptacle]}."

    def _take(self, thing: str, receptacle: str) -> str:
        self._change(("holds", self._agent, thing), ("inreceptacle", thing, receptacle))
        self._change(("holdsany", self._agent), ("objectatlocation", thing, self._spot))
        self._inside[receptacle].discard(thing)
        self._taken.add((thing, receptacle))
        self._held = [thing]
        return f"You pick up the {self._names[thing]} from the {self._names[receptacle]}."

    def _put(self, thing: str, receptacle: str) -> str:
        self._change(("inreceptacle", thing, receptacle), ("holds", self._agent, thing))
        self._change(("objectatlocation", thing, self._spot), ("holdsany", self._agent))
        self._inside[receptacle].add(thing)
        self._taken.discard((thing, receptacle))
        self._held = []
        return self._phrasing.putting.format(o=self._names[thing], r=self._names[receptacle])

    def _make(self, verb: str, thing: str, receptacle: str) -> str:
        becomes, ceases = CHANGES[verb]
        self._change((becomes, thing), (ceases, thing))
        return f"You {verb} the {self._names[thing]} using the {self._names[receptacle]}."

    def _use(self, thing: str) -> str:
        self._facts ^= {("ison", thing)}
        self._facts.add(("istoggled", thing))
        return f"You turn on the {self._names[thing]}."

    def _slice(self, thing: str, knife: str) -> str:
        self._facts.add(("issliced", thing))
        return f"You sliced the {self._names[thing]} with the {self._names[knife]}."

    def _view(self, receptacle: str) -> str:
        name, seen = self._names[receptacle], comma_list(self._a(thing) for thing in sorted(self._inside[receptacle]))
        if ("openable", receptacle) not in self._facts:
            return f"On the {name}, you see {seen}."
        if ("opened", receptacle) in self._facts:
            return f"The {name} is open. In it, you see {seen}."
        return f"The {name} is closed."

    def _examine(self, thing: str) -> str:
        name = self._names[thing]
        if ("isreceptacleobject", thing) in self._facts:
            inside = sorted(inner for inner, outer in pairs(self._facts, "inreceptacleobject") if outer == thing)
            return f"This is a normal {name}. In it, you see {comma_list(map(self._a, inside))}."
        return examine_sentence(thing, self._facts).format(name)

    def _inventory(self) -> str:
        return (
            f"You are carrying: {comma_list(map(self._a, self._held))}."
            if self._held
            else "You are not carrying anything."
        )

    def _look(self) -> str:
        beside = self._beside[self._spot]
        if not beside:
            return self._middle([])
        here = sorted(thing for thing, spot in pairs(self._facts, "objectatlocation") if spot == self._spot)
        floor = [self._a(thing) for thing in here for receptacle in beside if (thing, receptacle) in self._taken]
        return (
            f"You are facing the {comma_list(self._names[r] for r in beside)}. Next to it, you see {comma_list(floor)}."
        )

    def _middle(self, seen: list[str]) -> str:
        return f"You are in the middle of a room. Looking quickly around you, you see {comma_list(map(self._a, seen))}."

    def _a(self, entity: str) -> str:
        return f"a {self._names[entity]}"

    def _change(self, added: pddl.Fact, removed: pddl.Fact) -> None:
        self._facts.discard(removed)
        self._facts.add(added)


def load(game: Game) -> Simulator:
    """The simulator of this game; an error if the game is a file with rules it does not know."""
    return Simulator(problem(game), game.sentence, phrasing_of(game))
