"""How ALFWorld's engine words facts: names and numbers for identifiers, lists, and the state of an object."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from fedrl.llm.household.pddl import Fact

EXAMINED = (  # the first that holds is used
    (("isclean", "ishot", "issliced"), "This is a hot and clean sliced {}."),
    (("isclean", "iscool", "issliced"), "This is a cool and clean sliced {}."),
    (("isclean", "issliced"), "This is a clean sliced {}."),
    (("ishot", "issliced"), "This is a hot sliced {}."),
    (("iscool", "issliced"), "This is a cool sliced {}."),
    (("isclean", "ishot"), "This is a hot and clean {}."),
    (("isclean", "iscool"), "This is a cool and clean {}."),
    (("ishot",), "This is a hot {}."),
    (("isclean",), "This is a clean {}."),
    (("iscool",), "This is a cold {}."),
    (("toggleable", "istoggled"), "This {} is on."),
    (("sliceable", "issliced"), "This is a sliced {}."),
    ((), "There's nothing special about {}."),
)


def pairs(facts: Iterable[Fact], predicate: str) -> Iterator[tuple[str, str]]:
    """The two arguments of every fact of this predicate."""
    return ((fact[1], fact[2]) for fact in facts if fact[0] == predicate)


def names(facts: Iterable[Fact]) -> dict[str, str]:
    """The player's name for each identifier: its class and a number, the highest for the first in order."""
    identifiers = sorted({term for fact in facts for term in fact[1:]})
    stems = {
        entity: entity.split("_bar_")[0] + "basin" * ("basin" in entity) for entity in identifiers if "_bar_" in entity
    }
    remaining = Counter(stems.values())
    readable = {entity: f"{entity} " for entity in identifiers}
    for entity, stem in stems.items():
        readable[entity] = f"{stem} {remaining[stem]}"
        remaining[stem] -= 1
    return readable


def comma_list(items: Iterable[str]) -> str:
    items = list(items)
    if len(items) < 2:
        return items[0] if items else "nothing"
    return f"{', '.join(items[:-1])}, and {items[-1]}"


def examine_sentence(thing: str, facts: Collection[Fact]) -> str:
    """The sentence about an object in the hand, with a gap for its name."""
    return next(text for needed, text in EXAMINED if all((state, thing) in facts for state in needed))
