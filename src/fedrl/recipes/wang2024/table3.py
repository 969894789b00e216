"""Table 3 of Wang et al. 2024: FedHAPG-M at beta 0.2, 0.5, 0.8 and PAvg, on CartPole and Walker2d.

The paper does not say after how many rounds, nor with which network for Walker; the rest is as in Figure 1.
"""

from dataclasses import dataclass
from pathlib import Path

from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.experiments import judge
from fedrl.experiments.recipe import Arm, Claim, Outcome, Recipe, RecipeError
from fedrl.plots import style
from fedrl.recipes import facts
from fedrl.recipes.wang2024 import _deep as deep
from fedrl.recipes.wang2024._deep import BASELINE, CART_POLE, HAPG, WALKER, Task

BEST = 0.8
PRINTED = {  # mean and what follows the ± (called a variance), for each beta; 1 is the baseline
    CART_POLE.name: {0.2: (83.46, 7.92), 0.5: (86.54, 12.99), 0.8: (86.58, 11.21), 1.0: (85.92, 12.17)},
    WALKER.name: {0.2: (130.93, 7.72), 0.5: (287.14, 72.26), 0.8: (301.57, 28.04), 1.0: (299.69, 3.02)},
}


@dataclass(frozen=True)
class Config:
    tasks: tuple[str, ...] = (CART_POLE.name, WALKER.name)  # what to learn: either or both
    betas: tuple[float, ...] = (0.2, 0.5, 0.8)  # momentum coefficients
    clients: int = 5  # N: how many learn together
    local_steps: int = 10  # K: steps between two rounds
    server_step: float = 1.0  # step of the server, lambda / (eta K)
    first: str = "theorem"  # u_0: "theorem" (Theorem 6.4's batch) or "zero"; not published
    spread: float = 0.1  # clients' initial states range over the usual widths times 1 ± spread
    episodes: int = 10  # per client in a measurement
    cart_rounds: int = 100  # rounds of communication on CartPole
    cart_eta: float = 3e-4  # local step size of all CartPole arms, chosen for PAvg
    cart_batch: int = 1  # its episodes per local step
    cart_horizon: int = 100  # steps of its episodes
    walker_rounds: int = 6  # rounds of communication on Walker
    walker_eta: float = 3e-5  # local step size of all Walker arms
    walker_batch: int = 4  # its episodes per local step
    walker_horizon: int = 500  # steps of its episodes
    over: str = "vmap"  # engine for CartPole: "vmap" (fast) or "map" (exact)
    workers: int = 0  # processes that simulate Walker; 0: one per core


def settings(config: Config, task: Task) -> deep.Settings:
    shared = {name: getattr(config, name) for name in ("local_steps", "server_step", "first", "spread", "episodes")}
    prefix = "cart" if task is CART_POLE else "walker"
    own = {name: getattr(config, f"{prefix}_{name}") for name in ("rounds", "eta", "batch", "horizon")}
    return deep.Settings(**shared, **own, eval_every=max(1, own["rounds"] // 10))


def build(config: Config) -> dict[str, Arm]:
    arms = {}
    for task in tasks(config):
        engine = fused(config.over) if task is CART_POLE else processes(config.workers or None)
        for beta in columns(config):
            method = BASELINE if beta == 1.0 else HAPG
            arms[arm_name(task, beta)] = deep.arm(task, settings(config, task), config.clients, method, beta, engine)
    return arms


def tasks(config: Config) -> list[Task]:
    known = {task.name: task for task in (CART_POLE, WALKER)}
    if not config.tasks or not set(config.tasks) <= set(known):
        raise RecipeError(f"tasks={','.join(config.tasks)}: choose {' or '.join(known)}, or both")
    return [known[name] for name in config.tasks]


def columns(config: Config) -> tuple[float, ...]:
    """All beta, the baseline last."""
    return (*(beta for beta in config.betas if beta != 1.0), 1.0)


def arm_name(task: Task, beta: float) -> str:
    return f"{task.name}, {method_name(beta)}"


def method_name(beta: float) -> str:
    return BASELINE if beta == 1.0 else f"{HAPG} beta = {beta:g}"


def claims(config: Config, arms: dict[str, Outcome]) -> list[Claim]:
    return [_best(config, arms, task) for task in tasks(config) if BEST in config.betas]


def _best(config: Config, arms: dict[str, Outcome], task: Task) -> Claim:
    """Compared seed by seed: the same environments and initial parameters."""
    verdicts, numbers = [], {}
    best = arms[arm_name(task, BEST)].final()
    for beta in columns(config):
        final = arms[arm_name(task, beta)].final()
        mean, error = judge.mean_se(final)
        numbers[method_name(beta)] = {"mean": mean, "se": error}
        if beta != BEST:
            gap, error = judge.mean_se(best - final)
            verdicts.append(judge.sign(gap, error))
            numbers[method_name(beta)] |= {"gap": gap, "gap se": error}
    text = f"{task.name}: {HAPG} with beta = {BEST:g} ends above every other beta and {BASELINE}, by 3 SE"
    return Claim(text, judge.every(verdicts), numbers)


def draw(config: Config, arms: dict[str, Outcome], folder: Path) -> list[Path]:
    """Final return of each arm, one panel per task; the paper's printed values as crosses."""
    size = (5 * len(config.tasks), 4.2)
    figure, axes = style.subplots(1, len(config.tasks), figsize=size, squeeze=False)
    places = range(len(columns(config)))
    for panel, task in zip(axes[0], tasks(config), strict=True):
        final = [judge.mean_se(arms[arm_name(task, beta)].final()) for beta in columns(config)]
        mean, error = zip(*final, strict=True)
        panel.errorbar(places, mean, error, fmt="o", capsize=3, color=style.look(0)["color"], label="here, ± 1 s.e.")
        printed = [PRINTED[task.name].get(beta, (float("nan"),))[0] for beta in columns(config)]
        panel.plot(places, printed, "x", color=style.look(1)["color"], label="as printed")
        names = [method_name(beta).removeprefix(f"{HAPG} ") for beta in columns(config)]
        panel.set(title=task.name, ylabel="final return, mean over clients")
        panel.set_xticks(places, names)
        panel.margins(x=0.15)
        deep.quiet(panel)
    style.legend_below(figure, axes[0, 0])
    return [style.save(figure, folder / "table3.png", f"{HAPG}; as printed: Table 3")]


RECIPE = Recipe(
    **facts("wang2024/table3"),
    seeds=2,
    config=Config,
    build=build,
    claims=claims,
    draw=draw,
    paper_settings={"cart_rounds": 150, "walker_rounds": 400, "walker_batch": 100},  # as in the published logs
    paper_seeds=16,
    claim_texts=("FedHAPG-M with beta = 0.8 ends above every other beta and PAvg, on CartPole and on Walker",),
)
