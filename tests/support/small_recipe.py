"""A user's recipe in a file of its own, as tests copy it to places outside the repository: two arms, seconds."""

from dataclasses import dataclass

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fedavg import pavg
from fedrl.engines.fused import fused
from fedrl.environments.tabular import finite, random_mdp
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe
from fedrl.federations.federation import Federation
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce

ETA = 0.1


@dataclass(frozen=True)
class Config:
    rounds: int = 2  # rounds of communication
    # how far kernels differ
    kappa: float = 0.5
    kinds: tuple[str, ...] = ("a", "b")


def softened(direction):
    """A direction of the user's own, which worker processes cannot import."""

    def build(environment, policy):
        inner = direction(environment, policy)
        return inner._replace(sample=lambda *arguments: inner.sample(*arguments))

    return build


def build(config: Config) -> dict[str, Arm]:
    federation = Federation(finite.environment(3, 2, 0.9), random_mdp.dense(3, 2, kappa=config.kappa), clients=2)
    learner = gradient_learner(softened(reinforce(horizon=4, batch=1)), eta=ETA, local_steps=1)

    def arm(method) -> Arm:
        return Arm(method, federation, config.rounds, fused("map"))

    return {"PAvg": arm(pavg(eta=ETA, local_steps=1, horizon=4)), "alone": arm(alone(learner))}


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    gap, error = judge.mean_se(arms["PAvg"].final() - arms["alone"].final())
    return [Claim("federating beats going alone", judge.sign(gap, error), {"gap": gap})]


RECIPE = Recipe(paper="ours", shows="that it runs", minutes=0.1, seeds=2, config=Config, build=build, claims=claims)
