"""The answer that a run gives, as the title of its figure: what holds, what does not, what is undecided."""

from collections.abc import Sequence

from fedrl.experiments.judge import FAILS, HOLDS, UNDECIDED
from fedrl.experiments.recipe import Claim

MOST = 2  # claims of each verdict that are named
OPENINGS = {HOLDS: "", FAILS: "Not so: ", UNDECIDED: "Undecided: "}


def headline(claims: Sequence[Claim]) -> str:
    """ "Federating beats going alone. Undecided: FedAvg ends above QAvg." Empty if there are no claims."""
    sentences = []
    for verdict, opening in OPENINGS.items():
        texts = [_short(claim.text) for claim in claims if claim.verdict == verdict]
        if texts:
            more = f", and {len(texts) - MOST} more" if len(texts) > MOST else ""
            sentence = f"{opening}{'; '.join(texts[:MOST])}{more}."
            sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(sentences)


def _short(text: str) -> str:
    """The claim without how it was decided."""
    return text.partition(": ")[0].removesuffix(", by 3 SE")
