"""Goals on hand-made facts, and what is no PDDL."""

import pytest

from fedrl.llm.household import pddl

TEXT = """
(define (problem plan_1) ; a comment (with a parenthesis
  (:domain alfred) (:metric minimize (total-cost))
  (:objects agent1 - agent Cup_bar_1 Cup_bar_2 - object CupType - otype ShelfType - rtype Shelf_bar_1 - receptacle)
  (:init (= (total-cost) 0) (= (distance loc_1 loc_2) 7)
    (objectType Cup_bar_1 CupType) (objectType Cup_bar_2 CupType) (receptacleType Shelf_bar_1 ShelfType))
  (:goal (and {}))
)
"""
ON = {("inreceptacle", f"cup_bar_{i}", "shelf_bar_1") for i in (1, 2)}


def goal(text):
    stated = pddl.problem(TEXT.format(text))
    return pddl.ground(stated.goal, stated)


def test_a_problem_is_read_without_costs_and_in_lower_case():
    stated = pddl.problem(TEXT.format("(holds agent1 Cup_bar_1)"))
    assert stated.entities["cup_bar_1"] == stated.entities["cup_bar_2"] == "object"
    assert len(stated.facts) == 3
    assert stated.goal == ("and", ("holds", "agent1", "cup_bar_1"))


@pytest.mark.parametrize(
    ("text", "none", "one", "both"),
    [
        (
            "(exists (?o - object ?r - receptacle) (and (objectType ?o CupType) (inReceptacle ?o ?r)))",
            False,
            True,
            True,
        ),
        ("(exists (?o - object) (objectType ?o ShelfType))", False, False, False),
        ("(forall (?o - object) (inReceptacle ?o Shelf_bar_1))", False, False, True),
        ("(forall (?r - receptacle) (not (opened ?r)))", True, True, True),
        ("(or (opened Shelf_bar_1) (not (inReceptacle Cup_bar_2 Shelf_bar_1)))", True, True, False),
        (
            "(exists (?o - object) (exists (?p - object) (and (not (= ?o ?p)) (inReceptacle ?o Shelf_bar_1)"
            " (inReceptacle ?p Shelf_bar_1))))",
            False,
            False,
            True,
        ),
        ("(exists (?o - object) (and (= ?o Cup_bar_1) (exists (?o - object) (= ?o Cup_bar_2))))", True, True, True),
    ],
)
def test_goals(text, none, one, both):
    grounded = goal(text)
    first = {("inreceptacle", "cup_bar_1", "shelf_bar_1")}
    assert [pddl.holds(grounded, facts) for facts in (set(), first, ON)] == [none, one, both]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(define (problem x)", "one whole parenthesised expression"),
        ("(define))", "closing parenthesis too many"),
        ("(define (problem x) (:objects) (:init))", "lacks :goal"),
    ],
)
def test_what_is_no_problem(text, message):
    with pytest.raises(ValueError, match=message):
        pddl.problem(text)
