"""Recipes for tests: runs of a few rounds on finite MDPs, cart-pole, mountain car and Hopper, in place of the real ones."""

from dataclasses import dataclass
from pathlib import Path

from support.federations import federation

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fedavg import pavg
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.evaluation import sampled_return
from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import Arm, Recipe
from fedrl.federations.federation import Federation
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.mlp import mlp
from fedrl.records import folder

STEP = {"eta": 0.01, "local_steps": 1, "policy": mlp(4)}


@dataclass(frozen=True)
class Config:
    kind: str = "cart-pole"


def build(config: Config) -> dict[str, Arm]:
    look = sampled_return(2)
    if config.kind == "finite":
        return {"PAvg": Arm(pavg(eta=0.1, local_steps=2, horizon=5), federation(3), 6, fused("vmap"))}
    if config.kind == "hopper":
        from fedrl.environments.control import mujoco

        legs = Federation(mujoco.hopper(max_episode_steps=30, threads=1), mujoco.hopper_legs("low", 2))
        return {"PAvg": Arm(pavg(**STEP, horizon=5), legs, 1, one_at_a_time(), look)}
    if config.kind == "mountain car":
        hills = Federation(mountain_car.environment(max_episode_steps=300), mountain_car.shifts("low", 3))
        return {"PAvg": Arm(pavg(**STEP, horizon=5), hills, 1, one_at_a_time(), look)}
    carts = Federation(cart_pole.environment(max_episode_steps=60), cart_pole.evenly(3, "half_length", 0.3, 0.9))
    return {
        "PAvg": Arm(pavg(**STEP, horizon=5), carts, 2, one_at_a_time(), look, keep_best=True),
        "alone": Arm(
            alone(gradient_learner(reinforce(horizon=5, batch=1), **STEP)),
            carts,
            2,
            one_at_a_time(),
            look,
            keep_best=True,
        ),
    }


TINY = Recipe(
    paper="none",
    shows="nothing",
    minutes=0.1,
    seeds=2,
    config=Config,
    build=build,
    claims=lambda config, arms: [],
)


def finished_run(kind: str, path: Path) -> None:
    """Train the recipe of this kind into `path`. Until it is put back, there is no other recipe."""
    find.recipe = lambda name: TINY
    order = orders.order("tiny", overrides={"kind": kind})
    with folder.claim(path, order.plain(), resume=False) as place:
        experiment.run(order, place, warn=print)
