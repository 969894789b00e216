"""The phrasing of an ALFWorld game file, and whether the simulator knows its rules.

Version 0.4 moves things to a receptacle and arrives at it; earlier ones put them in/on it, arrive at a numbered place
and have no help. Grammar and domain stand in every game file; beyond these differences they are compared with those of
version 0.4.2 by a digest, so that the simulator never plays a game whose rules it does not implement.
"""

import hashlib
import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from fedrl.llm.household import pddl

USES = {
    "look": "look around your current location",
    "inventory": "check your current inventory",
    "go to (receptacle)": "move to a receptacle",
    "open (receptacle)": "open a receptacle",
    "close (receptacle)": "close a receptacle",
    "take (object) from (receptacle)": "take an object from a receptacle",
    "move (object) to (receptacle)": "place an object in or on a receptacle",
    "examine (something)": "examine a receptacle or an object",
    "use (object)": "use an object",
    "heat (object) with (receptacle)": "heat an object using a receptacle",
    "clean (object) with (receptacle)": "clean an object using a receptacle",
    "cool (object) with (receptacle)": "cool an object using a receptacle",
    "slice (object) with (object)": "slice an object using a sharp object",
}
NARROW = "move (object) to (receptacle)"  # the engine's column is two short here
HELP = "Available commands:\n" + "".join(
    f"  {use + ':':<{32 if use == NARROW else 34}}{meaning}\n" for use, meaning in USES.items()
)
MOVES = ("gotolocation", "openobject", "closeobject", "pickupobject", "putobject")
USING = ("toggleobject", "heatobject", "cleanobject", "coolobject", "sliceobject")
ACTIONS = (*MOVES, *USING, "inventory", "examinereceptacle", "examineobject", "look")
GRAMMAR, DOMAIN = "c1b938770d9dacb0", "cf437239dcc64113"  # digests of version 0.4.2

USE_ENGINE = 'play it with player="alfworld", which reads the rules from the file'


class Phrasing(NamedTuple):
    put: str  # the command, of an object o and a receptacle r
    putting: str  # the answer
    numbered_places: bool  # "You arrive at loc 3." instead of the receptacle's name
    help: bool


NEW = Phrasing("move {o} to {r}", "You move the {o} to the {r}.", False, True)
OLD = Phrasing("put {o} in/on {r}", "You put the {o} in/on the {r}.", True, False)


def sentence(grammar: str) -> str:
    """The task as stated in a game's grammar, without the full stop."""
    match = re.search(r'Your task is to: (.*?)\."', grammar)
    if match is None:
        raise ValueError(
            'the grammar of a game tells no task ("Your task is to: …"); take the file from its source again'
        )
    return match[1]


def read_phrasing(grammar: str, domain: str) -> Phrasing:
    """The phrasing of a game file; an error if it has rules that the simulator does not know."""
    return _read_phrasing(grammar.replace(f"Your task is to: {sentence(grammar)}.", ""), domain)


@lru_cache(8)
def _read_phrasing(grammar: str, domain: str) -> Phrasing:
    actions, rules = _parse(grammar)
    put = actions.get("putobject", ("", ""))[0]
    if put not in (NEW.put, OLD.put):
        raise ValueError(
            f'the game spells putting as {put!r}, the simulator knows "{NEW.put}" and "{OLD.put}"; {USE_ENGINE}'
        )
    numbered = "{lend.name}" in str(rules.get("GotoLocation.feedback"))
    putting = next((known.putting for known in (NEW, OLD) if _slots(known.putting) in grammar), "")
    if grammar_digest(grammar) != GRAMMAR or domain_digest(domain) != DOMAIN:
        raise ValueError(f"the game has a grammar or a domain other than that of alfworld 0.4.2; {USE_ENGINE}")
    return Phrasing(put, putting, numbered, "help" in actions)


def grammar_digest(grammar: str) -> str:
    """The digest of the actions' texts and of the rules for lists, with known spellings normalised to version 0.4."""
    for old, new in (
        (OLD.put, NEW.put),
        (_slots(OLD.putting), _slots(NEW.putting)),
        ("You arrive at {lend.name}.", "You arrive at {r.name}."),
    ):
        grammar = grammar.replace(old, new)
    actions, rules = _parse(grammar)
    texts: dict[str, list[Any]] = {name: list(actions.get(name, ())) for name in ACTIONS}
    waiting = [
        "#intro#",
        "#list_empty##list_separator##list_last_separator#",
        *(text for pair in texts.values() for text in pair),
    ]
    while waiting:
        for rule in re.findall(r"#([^#]+)#", waiting.pop()):
            if rule not in texts and rule != "task":
                texts[rule] = [[option.get("condition", ""), option["rhs"]] for option in rules.get(rule, [])]
                waiting += [text for option in texts[rule] for text in option]
    return _digest(texts)


def domain_digest(domain: str) -> str:
    """The digest of the actions' preconditions and effects, without their costs."""
    actions = {
        part[1]: _without_costs(part[2:]) for part in pddl.read(domain) if part[0] == ":action" and part[1] != "help"
    }
    return _digest(actions)


def _parse(grammar: str) -> tuple[dict[str, tuple[str, str]], dict[str, list[Any]]]:
    """Template and feedback of each action, and the rules they use."""
    rules: dict[str, list[Any]] = {}
    for block in re.findall(r'"""(.*?)"""', grammar, re.DOTALL):
        rules |= json.loads(block)
    pattern = r'action\s+(\w+)\s*\{\s*template\s*::\s*"(.*?)";\s*feedback\s*::\s*"(.*?)";'
    return {name.lower(): (put, say) for name, put, say in re.findall(pattern, grammar, re.DOTALL)}, rules


def _slots(text: str) -> str:
    return text.format(o="{o.name}", r="{r.name}")


def _without_costs(tree: list[Any]) -> list[Any]:
    kept = [part for part in tree if not (isinstance(part, list) and part[:1] == ["increase"])]
    return [_without_costs(part) if isinstance(part, list) else part for part in kept]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
