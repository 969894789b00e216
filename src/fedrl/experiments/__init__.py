"""What a recipe is, and how it is found, run and judged. `docs/your-experiment.md` writes one.

`Recipe`, `Arm`, `Claim` and `Outcome` are imported when first used: listing recipes needs no JAX.
"""

from typing import TYPE_CHECKING

from fedrl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fedrl.experiments import judge
    from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe

__all__ = ["Arm", "Claim", "Outcome", "Recipe", "judge"]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Arm": "recipe:Arm",
        "Claim": "recipe:Claim",
        "Outcome": "recipe:Outcome",
        "Recipe": "recipe:Recipe",
        "judge": "judge",
    },
)
