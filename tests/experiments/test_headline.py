"""The title of a figure gives the answer."""

from fedrl.experiments.headline import headline
from fedrl.experiments.recipe import Claim


def claim(text: str, verdict: str) -> Claim:
    return Claim(text, verdict, {})


def test_what_holds_is_stated_and_the_rest_is_named_as_such():
    claims = [
        claim("federating beats going alone: A above B by 3 SE", "holds"),
        claim("FedPOHCS ends above FedAvg, by 3 SE", "undecided"),
        claim("one phase is slower early", "does not hold"),
    ]
    assert headline(claims) == (
        "Federating beats going alone. Not so: one phase is slower early. Undecided: FedPOHCS ends above FedAvg."
    )


def test_many_claims_are_counted():
    assert headline([claim(f"claim {i}", "undecided") for i in range(5)]) == "Undecided: claim 0; claim 1, and 3 more."
    assert headline([]) == ""
