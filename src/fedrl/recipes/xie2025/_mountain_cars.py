"""Mountain Cars: sixty cars whose engines shift every action by a constant of their own (Xie & Song 2025, §5.1)."""

from dataclasses import dataclass

from fedrl.engines.fused import fused
from fedrl.environments.control import mountain_car
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm
from fedrl.federations.federation import Federation
from fedrl.recipes.xie2025 import _methods as methods

ENTROPY_EVERY = {"low": 10, "medium": 20, "high": 50}  # rounds; published code


@dataclass(frozen=True)
class Config(methods.Config):
    convention: str = "paper"  # of the shifts: "paper" or "published" (high then goes up to 2.92)
    cost: str = "shifted"  # which action costs: the shifted one (published) or the policy's ("policy": all stand still)
    clip: bool = False  # clip actions before rounding them; published: no, as beyond the bounds, too, costs differ
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


def arm(config: Config, name: str) -> Arm:
    """The federation of `config.level`, its clients chosen by the method `name`."""
    env_params = mountain_car.shifts(config.level, config.clients, convention=config.convention)
    return Arm(
        methods.method(config, name, entropy_every=ENTROPY_EVERY[config.level]),
        Federation(mountain_car.environment(0.99, cost=config.cost), env_params),
        config.rounds,
        fused(config.over),
        evaluation=sampled_return(config.episodes),
        eval_every=config.eval_every,
    )
