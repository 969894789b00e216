"""How a client learns. `ppo`, `trpo` and `tac` are whole learners; `reinforce`, `exact_gradient`, `svrpg`, `hapg` and
`q_learning` are directions, which `gradient_learner` turns into learners. To write a direction of your own, return a
`Direction`.
"""

from fedrl.learners.decay import exponential
from fedrl.learners.exact_gradient import exact_gradient
from fedrl.learners.gradient_steps import BuildDirection, Direction, gradient_learner
from fedrl.learners.hapg import hapg
from fedrl.learners.local_step_counts import fixed_steps, random_steps, steps_by_time
from fedrl.learners.optimizers import adam, decaying, dropping, sgd
from fedrl.learners.own_critic import own_critic
from fedrl.learners.ppo import ppo
from fedrl.learners.proximal import proximal
from fedrl.learners.q_learning import q_learning
from fedrl.learners.reinforce import reinforce
from fedrl.learners.safeguards import leave_one_out, storm
from fedrl.learners.surrogates import adaptive_kl, clipped
from fedrl.learners.svrpg import svrpg
from fedrl.learners.tac import tac
from fedrl.learners.trpo import trpo
from fedrl.types import BuildLearner, Learner

__all__ = [
    "BuildDirection",
    "BuildLearner",
    "Direction",
    "Learner",
    "adam",
    "adaptive_kl",
    "clipped",
    "decaying",
    "dropping",
    "exact_gradient",
    "exponential",
    "fixed_steps",
    "gradient_learner",
    "hapg",
    "leave_one_out",
    "own_critic",
    "ppo",
    "proximal",
    "q_learning",
    "random_steps",
    "reinforce",
    "sgd",
    "steps_by_time",
    "storm",
    "svrpg",
    "tac",
    "trpo",
]


def __dir__() -> list[str]:
    return __all__
