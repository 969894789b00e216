"""Hoppers: sixty MuJoCo hoppers whose legs differ in thickness (Xie & Song 2025, §5.1)."""

from dataclasses import dataclass

from fedrl.engines.local_processes import processes
from fedrl.evaluation import sampled_return
from fedrl.experiments.recipe import Arm
from fedrl.federations.federation import Federation
from fedrl.recipes.xie2025 import _methods as methods

ENTROPY_EVERY = 5  # rounds; published code


@dataclass(frozen=True)
class Config(methods.Config):
    num_envs: int = 4
    rounds: int = 6
    episodes: int = 2
    learning_rate: float = 3e-2
    fedavg_learning_rate: float = 3e-2
    decay: float = 0.9
    floor: float = 1e-4  # below which the rate does not fall (published code)
    rounding: float = 0.4  # of states and actions in the tabular model (published code)


PAPER_SETTINGS = {"rounds": 100, "local_steps": 20, "warm_up": 50_000, "episodes": 100, "eval_every": 1}


def arm(config: Config, name: str) -> Arm:
    """The federation of `config.level`, its clients chosen by the method `name`."""
    from fedrl.environments.control import mujoco

    return Arm(
        methods.method(config, name, entropy_every=ENTROPY_EVERY),
        Federation(mujoco.hopper(0.99), mujoco.hopper_legs(config.level, config.clients)),
        config.rounds,
        processes(),
        evaluation=sampled_return(config.episodes),
        eval_every=config.eval_every,
    )
