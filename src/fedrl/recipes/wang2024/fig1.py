"""Figure 1 of Wang et al. 2024: FedSVRPG-M and FedHAPG-M at beta 0.2, 0.5, 0.8, and PAvg, on CartPole and HalfCheetah."""

from dataclasses import dataclass

from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.experiments.recipe import Recipe
from fedrl.recipes import facts
from fedrl.recipes.wang2024 import _betas
from fedrl.recipes.wang2024._deep import CART_POLE as CART
from fedrl.recipes.wang2024._deep import CHEETAH, HAPG, SVRPG


@dataclass(frozen=True)
class CartPole(_betas.Settings):
    over: str = "vmap"  # engine: "vmap" (fast) or "map" (exact)


@dataclass(frozen=True)
class HalfCheetah(_betas.Settings):
    betas: tuple[float, ...] = (0.5,)
    clients: int = 2
    rounds: int = 10
    eta: float = 1e-6  # with 1e-5 FedHAPG-M diverges and the run stops there
    local_steps: int = 5
    batch: int = 4
    episodes: int = 4
    eval_every: int = 2
    workers: int = 0  # processes that simulate; 0: one per core


CART_POLE = Recipe(
    **facts("wang2024/fig1-cartpole"),
    seeds=8,
    config=CartPole,
    build=lambda config: _betas.build(config, CART, fused(config.over)),
    claims=lambda config, outcomes: _betas.claims(config, outcomes, best={SVRPG: 0.2, HAPG: 0.8}),
    draw=lambda config, outcomes, folder: _betas.draw(config, outcomes, folder, CART),
    paper_settings={"rounds": 150},  # as in the published logs
    paper_seeds=16,
    claim_texts=(
        "some beta is above PAvg, over all rounds and at the end, for FedSVRPG-M and for FedHAPG-M",
        "beta = 0.2 is the best of FedSVRPG-M, beta = 0.8 of FedHAPG-M",
        "FedHAPG-M varies less than FedSVRPG-M, between seeds and between measurements",
    ),
)

HALF_CHEETAH = Recipe(
    **facts("wang2024/fig1-halfcheetah"),
    seeds=2,
    config=HalfCheetah,
    build=lambda config: _betas.build(config, CHEETAH, processes(config.workers or None)),
    claims=lambda config, outcomes: _betas.claims(config, outcomes, best={SVRPG: 0.5, HAPG: 0.5}),
    draw=lambda config, outcomes, folder: _betas.draw(config, outcomes, folder, CHEETAH),
    paper_settings={
        "betas": (0.2, 0.5, 0.8),
        "clients": 5,
        "rounds": 150,
        "local_steps": 10,
        "batch": 20,
        "horizon": 500,
    },
    paper_seeds=4,
    claim_texts=(
        "some beta is above PAvg, over all rounds and at the end, for FedSVRPG-M and for FedHAPG-M",
        "beta = 0.5 is the best of both methods",
        "FedHAPG-M varies less than FedSVRPG-M, between seeds and between measurements",
    ),
)
