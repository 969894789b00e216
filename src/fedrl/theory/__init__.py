"""The papers' theory as functions: best common policies, heterogeneity, exact solvers, error bounds, utility.

Collections whose functions are named after equations stay modules: `theory.fapi_bounds.lemma_4`.
"""

from fedrl.environments.tabular import solvers
from fedrl.theory import (
    bounds,
    counter_examples,
    fapi,
    fapi_bounds,
    fedagent_bound,
    fedpg_bounds,
    fedpg_constants,
    lojasiewicz,
    momentum_bounds,
    utility,
)
from fedrl.theory.bit_level import best_objective, bit_level_mdp, entropy_regularised, projection_radius
from fedrl.theory.common_policies import best_agent_aware, best_deterministic, best_local_history, best_stationary
from fedrl.theory.heterogeneity import (
    epsilon_p,
    gradient_heterogeneity,
    kappa_1,
    kappa_2,
    kappa_imaginary,
    kappa_pairs,
)

__all__ = [
    "best_agent_aware",
    "best_deterministic",
    "best_local_history",
    "best_objective",
    "best_stationary",
    "bit_level_mdp",
    "bounds",
    "counter_examples",
    "entropy_regularised",
    "epsilon_p",
    "fapi",
    "fapi_bounds",
    "fedagent_bound",
    "fedpg_bounds",
    "fedpg_constants",
    "gradient_heterogeneity",
    "kappa_1",
    "kappa_2",
    "kappa_imaginary",
    "kappa_pairs",
    "lojasiewicz",
    "momentum_bounds",
    "projection_radius",
    "solvers",
    "utility",
]


def __dir__() -> list[str]:
    return __all__
