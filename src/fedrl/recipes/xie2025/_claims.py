"""The claims of `xie2025` about its figures, decided on returns averaged over the last tenth of a run."""

import itertools
import math

import numpy as np

from fedrl.experiments import judge
from fedrl.experiments.recipe import Claim, Outcome

COMPARABLE = 10.0  # "comparable" final performance: within so many points of return


def late(outcome: Outcome, share: float = 0.1) -> np.ndarray:
    """Return of each seed, averaged over the last `share` of the measured rounds."""
    _, returns = outcome.curve()
    return np.asarray(returns[-max(1, math.ceil(share * len(returns))) :].mean(axis=0))


def whole(outcome: Outcome) -> np.ndarray:
    """Return of each seed, averaged over all measured rounds: a fast learner is high here."""
    return np.asarray(outcome.curve()[1].mean(axis=0))


def ends_above(arms: dict[str, Outcome], better: str, worse: str, where: str = "") -> Claim:
    return _above(f"{where}{better} ends above {worse}", late(arms[better]), late(arms[worse]))


def learns_faster(arms: dict[str, Outcome], better: str, worse: str) -> Claim:
    text = f"{better} converges faster than {worse}: higher mean over all rounds"
    return _above(text, whole(arms[better]), whole(arms[worse]))


def _above(text: str, above: np.ndarray, below: np.ndarray) -> Claim:
    """Seeds are shared between methods (same parameters, same candidates), so differences are taken within a seed."""
    gap, error = judge.mean_se(above - below)
    return Claim(f"{text}, by 3 SE", judge.sign(gap, error), {"gap": gap, "se": error, "seeds": above.size})


def comparable(arms: dict[str, Outcome], one: str, other: str) -> Claim:
    gap, error = judge.mean_se(late(arms[one]) - late(arms[other]))
    verdict = judge.inside(gap, error, -COMPARABLE, COMPARABLE)
    return Claim(f"{one} ends within {COMPARABLE:g} of {other}", verdict, {"gap": gap, "se": error})


def falls_with_level(arms: dict[str, dict[str, Outcome]], name: str) -> Claim:
    """`arms` by level, low to high."""
    ends = [late(of[name]) for of in arms.values()]
    verdict = judge.every(judge.sign(*judge.difference(a, b)) for a, b in itertools.pairwise(ends))
    numbers = {level: float(end.mean()) for level, end in zip(arms, ends, strict=True)}
    return Claim(f"{name} does worse the higher the heterogeneity", verdict, numbers)


def gap_grows(arms: dict[str, dict[str, Outcome]], better: str, worse: str) -> Claim:
    """The lead of `better` over `worse` is larger at the highest level than at the lowest."""
    leads = [late(of[better]) - late(of[worse]) for of in arms.values()]
    gap, error = judge.difference(leads[-1], leads[0])
    numbers = {level: float(lead.mean()) for level, lead in zip(arms, leads, strict=True)} | {"se": error}
    return Claim(f"the lead of {better} over {worse} grows with heterogeneity", judge.sign(gap, error), numbers)


def less_affected(arms: dict[str, dict[str, Outcome]], name: str, than: str) -> Claim:
    """From the lowest level to the highest, `name` loses less than `than`."""
    gap, error = judge.difference(_decline(arms, than), _decline(arms, name))
    text = f"{name} loses less from low to high heterogeneity than {than}"
    return Claim(text, judge.sign(gap, error), {"difference": gap, "se": error})


def _decline(arms: dict[str, dict[str, Outcome]], name: str) -> np.ndarray:
    ends = [late(of[name]) for of in arms.values()]
    return np.asarray(ends[0] - ends[-1])
