"""Planning problems in PDDL, as far as ALFWorld's files need it: read, write, and decide whether the goal holds."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Formula = Any  # an atom ("inreceptacle", "?o", "?r"); or "and", "or", "not", "=", "exists", "forall" and their operands
Fact = tuple[str, ...]
PLACE = {"atlocation", "holds", "holdsany", "inreceptacle", "objectatlocation"}
STATE = {"isclean", "iscool", "ishot", "ison", "issliced", "istoggled", "opened"}
DYNAMIC = PLACE | STATE  # predicates that actions change; all others keep their facts


class Problem(NamedTuple):
    entities: dict[str, str]  # identifier: its PDDL type
    facts: frozenset[Fact]  # true at the start
    goal: Formula


def read(text: str) -> list[Any]:
    """Nested lists of the lower-case tokens of one parenthesised expression; comments are dropped."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";.*", "", text).lower()):
        if token == "(":
            stack.append([])
        elif token != ")":
            stack[-1].append(token)
        elif len(stack) > 1:
            last = stack.pop()
            stack[-1].append(last)
        else:
            raise ValueError("PDDL text has a closing parenthesis too many; take the file from its source again")
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError("PDDL text must be one whole parenthesised expression; take the file from its source again")
    expression: list[Any] = stack[0][0]
    return expression


def problem(text: str) -> Problem:
    """The problem a `(define (problem …))` text states. Costs are left out."""
    parts = {part[0]: part[1:] for part in read(text)[1:]}
    missing = {":objects", ":init", ":goal"} - parts.keys()
    if missing:
        raise ValueError(f"PDDL problem lacks {', '.join(sorted(missing))}; take the file from its source again")
    facts = frozenset(tuple(fact) for fact in parts[":init"] if fact[0] != "=")
    return Problem(dict(_typed_names(parts[":objects"])), facts, formula(parts[":goal"][0]))


def formula(tree: list[Any]) -> Formula:
    """The formula of nested lists, e.g. of `read("(exists (?o - object) (holds agent1 ?o))")`."""
    match tree:
        case ["and" | "or" | "not" as word, *parts]:
            return (word, *map(formula, parts))
        case ["exists" | "forall" as word, variables, body]:
            return (word, tuple(_typed_names(variables)), formula(body))
    return tuple(tree)


def write(problem: Problem, name: str) -> str:
    """A `(define (problem …))` text of ALFWorld's domain."""
    entities = [f"{entity} - {kind}" for entity, kind in problem.entities.items()]
    facts = ["(= (total-cost) 0)", *(f"({' '.join(fact)})" for fact in sorted(problem.facts))]
    lines = ["(:objects", *entities, ")", "(:init", *facts, ")", f"(:goal {_text(problem.goal)})"]
    return "\n".join([f"(define (problem {name})", "(:domain alfred)", *lines, ")"]) + "\n"


def ground(goal: Formula, problem: Problem, binding: dict[str, str] | None = None) -> Formula:
    """The goal without quantifiers and static atoms: True, False, or a formula of dynamic facts.

    An atom with a variable that `binding` does not have is left as it is.
    """
    binding = binding or {}
    match goal:
        case ("and" | "or" as word, *parts):
            return _connect(word, (ground(part, problem, binding) for part in parts))
        case ("not", part):
            inner = ground(part, problem, binding)
            return (not inner) if isinstance(inner, bool) else ("not", inner)
        case ("exists" | "forall" as word, variables, body):
            outer = {name: entity for name, entity in binding.items() if name not in dict(variables)}
            return _connect("or" if word == "exists" else "and", _instances(variables, body, problem, outer))
    atom = tuple(binding.get(term, term) for term in goal)
    if any(term.startswith("?") for term in atom):
        return atom
    if atom[0] == "=":
        return atom[1] == atom[2]
    return atom if atom[0] in DYNAMIC else atom in problem.facts


def holds(goal: Formula, facts: set[Fact]) -> bool:
    """Whether a grounded goal is true of these facts."""
    if isinstance(goal, bool):
        return goal
    if goal[0] == "and":
        return all(holds(part, facts) for part in goal[1:])
    if goal[0] == "or":
        return any(holds(part, facts) for part in goal[1:])
    return not holds(goal[1], facts) if goal[0] == "not" else goal in facts


def _instances(
    variables: tuple[tuple[str, str], ...], body: Formula, problem: Problem, binding: dict[str, str]
) -> Iterator[Formula]:
    """The body for every value of the variables, bound one by one; parts that static facts decide are not expanded."""
    partial = ground(body, problem, binding)
    if isinstance(partial, bool) or not variables:
        yield partial
        return
    (variable, type_name), *rest = variables
    for entity, kind in problem.entities.items():
        if kind == type_name:
            yield from _instances(tuple(rest), body, problem, {**binding, variable: entity})


def _connect(word: str, parts: Iterator[Formula]) -> Formula:
    absorbing, kept = word == "or", []
    for part in parts:
        if part is absorbing:
            return absorbing
        if not isinstance(part, bool):
            kept.append(part)
    if not kept:
        return not absorbing
    return kept[0] if len(kept) == 1 else (word, *kept)


def _typed_names(tokens: list[str]) -> Iterator[tuple[str, str]]:
    names: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if token != "-":
            names.append(token)
            continue
        kind = next(rest)
        yield from ((name, kind) for name in names)
        names = []


def _text(goal: Formula) -> str:
    if goal[0] in ("exists", "forall"):
        variables = " ".join(f"{name} - {kind}" for name, kind in goal[1])
        return f"({goal[0]} ({variables}) {_text(goal[2])})"
    return f"({' '.join(part if isinstance(part, str) else _text(part) for part in goal)})"
