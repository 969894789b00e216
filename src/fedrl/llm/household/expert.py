"""The expert: a winning plan made with knowledge of where everything is, for demonstrations."""

from collections.abc import Iterator

from fedrl.llm.household import pddl
from fedrl.llm.household.facts import names, pairs
from fedrl.llm.household.game import Game, phrasing_of, problem
from fedrl.llm.household.phrasing import Phrasing
from fedrl.llm.household.simulator import Simulator
from fedrl.llm.household.tasks import TASKS, Task


def expert(game: Game) -> list[str]:
    """Commands that win this game from its start, whatever file it comes from."""
    pddl_problem, phrasing = problem(game), phrasing_of(game)
    plan = _Walk(pddl_problem, phrasing).plan(TASKS[game.task_type])
    player = Simulator(pddl_problem, game.sentence, phrasing)
    for command in plan:
        player.step(command)
    if not player.won:
        raise ValueError(f"the expert has no plan for {game.name} ({game.sentence}); exclude this game")
    return plan


class _Walk:
    """A walk through the room that records its commands."""

    def __init__(self, pddl_problem: pddl.Problem, phrasing: Phrasing) -> None:
        self.facts, self.goal, self.put = pddl_problem.facts, pddl_problem.goal, phrasing.put
        self.names = names(pddl_problem.facts)
        self.where = dict(self.pairs("receptacleatlocation"))
        self.spot = dict(self.pairs("atlocation")).popitem()[1]
        self.opened = {fact[1] for fact in pddl_problem.facts if fact[0] == "opened"}
        self.commands: list[str] = []

    def plan(self, task: Task) -> list[str]:
        atoms = list(_atoms(self.goal))
        lamps = {atom[1] for atom in atoms if atom[0] == "istoggled"}
        thing = next(atom[2] for atom in atoms if atom[0] == "objecttype" and atom[1] not in lamps)
        if lamps:
            self.look(thing, next(atom[2] for atom in atoms if atom[0] == "objecttype" and atom[1] in lamps))
        else:
            self.place(thing, next(atom[2] for atom in atoms if atom[0] == "receptacletype"), task)
        return self.commands

    def look(self, thing: str, lamp: str) -> None:
        self.take(*self.takeable(thing)[0])
        light, stand = next(
            (light, stand)
            for light, stand in sorted(self.pairs("inreceptacle"))
            if self.is_of(light, lamp) and stand in self.where
        )
        self.go(stand)
        self.commands.append(f"use {self.names[light]}")

    def place(self, thing: str, place: str, task: Task) -> None:
        """Carry as many as the task needs to one receptacle: the one that already has most of them."""
        matches = [(one, home) for one, home in self.takeable(thing) if not task.able or (task.able, one) in self.facts]
        target = max(
            sorted(r for r, kind in self.pairs("receptacletype") if kind == place and r in self.where),
            key=lambda r: (sum(home == r for _, home in matches), ("openable", r) not in self.facts),
        )
        count = 0 if task.able else sum(home == target for _, home in matches)
        others = [(one, home) for one, home in matches if task.able or home != target]
        for one, home in others[: task.things - count]:
            self.take(one, home)
            if task.able:
                tool = min(
                    r
                    for r, kind in self.pairs("receptacletype")
                    if kind == f"{task.tool.lower()}type" and r in self.where
                )
                self.go(tool)
                self.commands.append(f"{task.verb} {self.names[one]} with {self.names[tool]}")
            self.reach(target)
            self.commands.append(self.put.format(o=self.names[one], r=self.names[target]))

    def takeable(self, thing: str) -> list[tuple[str, str]]:
        """The objects that can be taken and their places, those in the open first."""
        loose = [
            (one, home)
            for one, home in self.pairs("inreceptacle")
            if self.is_of(one, thing) and ("pickupable", one) in self.facts and home in self.where
        ]
        return sorted(loose, key=lambda pair: (("openable", pair[1]) in self.facts, pair))

    def take(self, thing: str, home: str) -> None:
        self.reach(home)
        self.commands.append(f"take {self.names[thing]} from {self.names[home]}")

    def reach(self, receptacle: str) -> None:
        self.go(receptacle)
        if ("openable", receptacle) in self.facts and receptacle not in self.opened:
            self.commands.append(f"open {self.names[receptacle]}")
            self.opened.add(receptacle)

    def go(self, receptacle: str) -> None:
        if self.where[receptacle] != self.spot:
            self.commands.append(f"go to {self.names[receptacle]}")
            self.spot = self.where[receptacle]

    def is_of(self, thing: str, kind: str) -> bool:
        return ("objecttype", thing, kind) in self.facts

    def pairs(self, predicate: str) -> Iterator[tuple[str, str]]:
        return pairs(self.facts, predicate)


def _atoms(goal: pddl.Formula) -> Iterator[pddl.Fact]:
    if goal[0] in ("and", "or", "not"):
        for part in goal[1:]:
            yield from _atoms(part)
    elif goal[0] in ("exists", "forall"):
        yield from _atoms(goal[2])
    else:
        yield goal
