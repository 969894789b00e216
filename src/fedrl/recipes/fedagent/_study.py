"""What the recipes of FedAgent (paper 002) share: an application, a model, whose task is whose, and how it is trained.

Needs the extra `llm`. The agents train with GRPO; the model has imitated public demonstrations first (`pocket`), which the
paper's have not: a measurement at round 0 shows what that alone gives.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.processes import processes
from fedrl.recipes import judging
from fedrl.recipes.recipe import Arm, Claim, Outcome, RecipeError
from fedrl.selection.participation import everyone, uniform

LOCAL = (21, 42, 84)  # the clients whose training alone the paper reports


@dataclass(frozen=True)
class Config:
    application: str = "webshop"  # "webshop" or "household" (ALFWorld)
    model: str = "pocket"  # "pocket", "smollm2", a folder, or a name on the hub
    data: str = ""  # folder of the user's own WebShop or ALFWorld files; empty: generated,
    products: int = 600  # with so many products,
    games: int = 2000  # or games
    demonstrations: int = 800  # public episodes that `pocket` has imitated
    width: int = 96  # of `pocket`
    clients: int = 100  # K
    tasks_each: int = 100
    per_round: int = 2  # M: clients in a round
    local_epochs: int = 3  # tau
    rounds: int = 70  # T
    tasks: int = 8  # a local epoch: so many tasks,
    group: int = 8  # and so many episodes of each
    rate: float = 3e-4  # 1e-6 for all parameters of a large model (paper)
    beta: float = 0.01  # of the KL to the model as it came
    reward: str = "score"  # "score", or "success" (paper): 10 for a won task, else 0
    partition: str = "uniform"  # "uniform", "preference", "coverage"
    omega: float = 0.9  # of preference
    xi: float = 1.0  # of coverage
    evaluate: int = 128  # held-out tasks
    every: int = 10  # rounds between two evaluations


PAPER_SIZE: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "rate": 1e-6,
    "reward": "success",
    "rounds": 70,
    "every": 10,
}


class Study:
    """The pieces of a config, made once."""

    def __init__(self, config: Config) -> None:
        try:
            from fedrl.agents import applications
            from fedrl.agents.grpo.update import Grpo
            from fedrl.agents.models.pocket import Size
            from fedrl.agents.models.pocket_spec import Pocket
            from fedrl.agents.models.pretrained import Pretrained
        except ImportError as error:
            raise RecipeError(f"language agents want {error.name}: pip install 'fedrl[llm]'") from error
        shared: dict[str, Any] = {
            "folder": config.data,
            "held_out": config.evaluate,
            "public": config.demonstrations,
        }
        settings: Any
        if config.application == "webshop":
            settings = applications.WebShop(config.products, **shared)
        elif config.application == "household":
            settings = applications.Household(config.games, **shared)
        else:
            raise RecipeError(f"application is webshop or household, got {config.application!r}")
        self.config, self.application = config, settings.build()
        small = Pocket(settings, Size(width=config.width, inner=3 * config.width))
        self.spec: Any = small if config.model == "pocket" else Pretrained(config.model)
        self.grpo = Grpo(reward=config.reward, beta=config.beta)
        self.lists = self._shared_out()

    def _shared_out(self) -> list[np.ndarray]:
        """Each client's tasks, as numbers of the application's."""
        from fedrl.agents.partitions import coverage, preference, sizes
        from fedrl.agents.partitions import uniform as evenly

        config, pool = self.config, self.application.pool
        if config.partition == "preference":
            parts = preference.preference(
                self.application.categories, config.clients, config.tasks_each, config.omega, seed=0
            )
        elif config.partition == "coverage":
            bounds = sizes.Bounds(max(1, config.tasks_each // 5), config.tasks_each, 2 * config.tasks_each)
            parts = coverage.coverage(len(pool), config.clients, config.xi, seed=0, bounds=bounds)
        elif config.partition == "uniform":
            parts = evenly.uniform(len(pool), config.clients, config.tasks_each, seed=0)
        else:
            raise RecipeError(f"partition is uniform, preference or coverage, got {config.partition!r}")
        return [pool[part] for part in parts]

    def arm(self, lists: list[np.ndarray], per_round: int, local_epochs: int, rounds: int) -> Arm:
        from fedrl.agents.evaluation import held_out
        from fedrl.agents.learner import grpo
        from fedrl.agents.tasks import federation

        config, world = self.config, self.application.world
        learner = grpo(
            self.spec,
            self.grpo,
            tasks=config.tasks,
            group=config.group,
            rate=config.rate,
            local_steps=local_epochs,
        )
        among = everyone() if per_round == len(lists) else uniform(per_round)
        every = max(1, config.every * config.local_epochs // local_epochs)
        return Arm(
            fedavg(learner, participation=among),
            federation(world, lists),
            rounds,
            processes(),
            measure=held_out(self.spec, world, self.application.held_out, chunks=min(2, len(lists))),
            every=min(every, rounds),
        )

    def fedagent(self) -> Arm:
        """Algorithm 1."""
        config = self.config
        return self.arm(self.lists, config.per_round, config.local_epochs, config.rounds)

    def centralised(self) -> Arm:
        """One learner with the tasks of all, as many epochs as a client of FedAgent sees in all rounds."""
        together = np.unique(np.concatenate(self.lists))
        return self.arm([together], 1, 1, self.config.rounds * self.config.local_epochs)

    def local(self, client: int) -> Arm:
        """One client that trains alone, for as many epochs."""
        return self.arm([self.lists[client % len(self.lists)]], 1, 1, self.config.rounds * self.config.local_epochs)


def start(outcome: Outcome) -> np.ndarray:
    """Success of each seed before the first round: what imitation alone gives."""
    return outcome.curve()[1][0]


def above(text: str, better: np.ndarray, worse: np.ndarray) -> Claim:
    """By 3 standard errors, within a seed."""
    gap, error = judging.mean_se(better - worse)
    numbers = {"gap": gap, "se": error, "better": better.mean(), "worse": worse.mean(), "seeds": better.size}
    return Claim(f"{text}, by 3 SE", judging.sign(gap, error), numbers)
