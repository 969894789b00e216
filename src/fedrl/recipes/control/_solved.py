"""Homogeneous control tasks: does PPO with federated averaging solve them with every seed?"""

from fedrl.recipes import judging
from fedrl.recipes.recipe import Claim, Outcome

ARM = "PPO-FedAvg"


def solved(arms: dict[str, Outcome], wanted: float) -> list[Claim]:
    """Mean final return over clients at least `wanted`, seed by seed."""
    final = arms[ARM].final()
    verdict = judging.HOLDS if (final >= wanted).all() else judging.FAILS
    numbers = {"by seed": final.tolist(), "seconds": arms[ARM].rows[-1]["seconds"]}
    return [Claim(f"every seed reaches a return of {wanted:g}", verdict, numbers)]
