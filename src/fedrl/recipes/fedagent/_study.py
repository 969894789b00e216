"""What the recipes of FedAgent (paper 002) share: an application, a model, whose task is whose, and how it is trained.

Needs the extra `llm`. The agents train with GRPO; the model has imitated public demonstrations first (`pocket`), which the
paper's have not: a measurement at round 0 shows what that alone gives.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedrl.algorithms.fedavg import fedavg
from fedrl.cache_folder import cache_folder
from fedrl.engines.processes import processes
from fedrl.federation import Federation
from fedrl.local.learner import Learner
from fedrl.recipes.recipe import Arm, RecipeError
from fedrl.selection.participation import Participation, everyone, uniform
from fedrl.selection.selection import BuildSelection, Selection

DEMONSTRATIONS = {"webshop": 1000, "household": 3000}  # after which `pocket` wins some of its tasks, not all
PASSES = {"household": 2}  # over these; once elsewhere
LOCAL = (21, 42, 84)  # the clients whose training alone the paper reports


@dataclass(frozen=True)
class Config:
    application: str = "webshop"  # "webshop" or "household" (ALFWorld)
    model: str = "pocket"  # "pocket", "smollm2", a folder, or a name on the hub
    data: str = ""  # folder of the user's own WebShop or ALFWorld files; empty: generated,
    products: int = 600  # with so many products,
    games: int = 6000  # or games,
    receptacles: int = 6  # of these, at most so many places in a room (99: as many as ALFWorld has),
    objects: tuple[int, int] = (3, 6)  # from so many to so many things that do not matter (ALFWorld: about 8 to 18),
    step_limit: int = 20  # and at most so many steps (ALFWorld: 50)
    demonstrations: int = 0  # public episodes that `pocket` has imitated; 0: 1000 of WebShop, 3000 of the household
    width: int = 96  # of `pocket`
    warm: int = 48  # demonstrations that another model imitates first; 0: none (paper)
    clients: int = 100  # K
    tasks_each: int = 15  # in 10 rounds a client that trains meets each about as often as the paper's 100 in 70
    per_round: int = 2  # M: clients in a round
    local_epochs: int = 3  # tau
    rounds: int = 10  # T
    tasks: int = 8  # a local epoch: so many tasks,
    group: int = 8  # and so many episodes of each
    rate: float = 3e-4  # 1e-6 for all parameters of a large model (paper)
    beta: float = 0.01  # of the KL to the model as it came
    reward: str = "score"  # "score", or "success" (paper): 10 for a won task, else 0
    partition: str = "uniform"  # "uniform", "preference", "coverage", "hardness"
    omega: float = 0.9  # of preference
    xi: float = 1.0  # of coverage, and xi' of hardness
    labels: str = (
        ""  # file of `fedrl agents label` that says which tasks are hard; empty: those the model fails untrained
    )
    evaluate: int = 128  # held-out tasks
    every: int = 2  # rounds between two evaluations


PAPER_SIZE: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "warm": 0,
    "rate": 1e-6,
    "reward": "success",
    "receptacles": 99,
    "objects": (8, 18),
    "step_limit": 50,
    "tasks_each": 100,
    "rounds": 70,
    "every": 10,
}


class Study:
    """The pieces of a config, made once."""

    def __init__(self, config: Config) -> None:
        try:
            from fedrl.agents import applications
            from fedrl.agents.grpo.update import Grpo
            from fedrl.agents.household.generate import Size as Rooms
            from fedrl.agents.models.pocket import Size
            from fedrl.agents.models.pocket_spec import Pocket
            from fedrl.agents.models.pretrained import Pretrained, Warm
        except ImportError as error:
            raise RecipeError(f"language agents want {error.name}: pip install 'fedrl[llm]'") from error
        shared: dict[str, Any] = {
            "folder": config.data,
            "held_out": config.evaluate,
            "public": config.demonstrations or DEMONSTRATIONS.get(config.application, 0),
        }
        settings: Any
        if config.application == "webshop":
            settings = applications.WebShop(config.products, **shared)
        elif config.application == "household":
            rooms = Rooms(config.receptacles, config.objects)
            settings = applications.Household(config.games, size=rooms, step_limit=config.step_limit, **shared)
        else:
            raise RecipeError(f"application is webshop or household, got {config.application!r}")
        self.config, self.application = config, settings.build()
        self.settings = settings  # of the application
        size = Size(width=config.width, inner=3 * config.width)
        small = Pocket(settings, size, passes=PASSES.get(config.application, 1))
        pages = config.application == "webshop"  # which show what can be clicked
        warm = Warm(settings, config.warm) if config.warm else None
        large = Pretrained(config.model, shows_commands=not pages, threads=1, warm=warm)  # a thread for each worker
        self.spec: Any = small if config.model == "pocket" else large
        self.grpo = Grpo(reward=config.reward, beta=config.beta)
        self.lists = [self.application.pool[part] for part in self.parts()]

    def parts(self, seed: int = 0) -> list[np.ndarray]:
        """Each client's tasks, as places in the application's pool."""
        from fedrl.agents.partitions import coverage, hardness, preference, sizes
        from fedrl.agents.partitions import uniform as evenly

        config, pool = self.config, len(self.application.pool)
        if config.partition == "preference":
            parts = preference.preference(
                self.application.categories, config.clients, config.tasks_each, config.omega, seed
            )
        elif config.partition == "coverage":
            bounds = sizes.Bounds(max(1, config.tasks_each // 5), config.tasks_each, 2 * config.tasks_each)
            parts = coverage.coverage(pool, config.clients, config.xi, seed, bounds=bounds)
        elif config.partition == "hardness":
            parts = hardness.hardness(self.solved(), config.clients, config.tasks_each, config.xi, seed)
        elif config.partition == "uniform":
            parts = evenly.uniform(pool, config.clients, config.tasks_each, seed)
        else:
            raise RecipeError(f"partition is uniform, preference, coverage or hardness, got {config.partition!r}")
        return parts

    def solved(self) -> np.ndarray:
        """Of each task of the pool, whether the labels say that a model wins it."""
        from fedrl.agents import labels

        path = Path(self.config.labels)
        if not self.config.labels:
            words = repr((self.spec, self.settings)).encode()
            path = cache_folder("labels") / f"{hashlib.sha256(words).hexdigest()[:20]}.json"
            if not path.exists():
                print(f"labelling {len(self.application.pool)} tasks by the model as it is now, once", file=sys.stderr)
            labels.label(self.spec, self.spec.init(jax.random.key(0)), self.settings, path)
        return labels.read(path, self.settings, self.application.pool)

    def arm(
        self, lists: list[np.ndarray], per_round: int, local_epochs: int, rounds: int, *, look: bool = False
    ) -> Arm:
        """`look`: every client also says how good its own model is when it has trained, for the log."""
        from fedrl.agents.evaluation import held_out, success
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
            look=success(self.spec, world, self.application.held_out) if look else None,
        )
        among = everyone() if per_round == len(lists) else uniform(per_round)
        every = max(1, config.every * config.local_epochs // local_epochs)
        return Arm(
            fedavg(learner, selection=_watched(among)) if look else fedavg(learner, participation=among),
            federation(world, lists),
            rounds,
            processes(),
            measure=held_out(self.spec, world, self.application.held_out, chunks=min(2, len(lists))),
            every=min(every, rounds),
        )

    def fedagent(self, *, look: bool = False) -> Arm:
        """Algorithm 1."""
        config = self.config
        return self.arm(self.lists, config.per_round, config.local_epochs, config.rounds, look=look)

    def centralised(self) -> Arm:
        """One learner with the tasks of all, as many epochs as a client of FedAgent sees in all rounds."""
        together = np.unique(np.concatenate(self.lists))
        return self.arm([together], 1, 1, self.config.rounds * self.config.local_epochs)

    def local(self, client: int) -> Arm:
        """One client that trains alone, for as many epochs."""
        return self.arm([self.lists[client % len(self.lists)]], 1, 1, self.config.rounds * self.config.local_epochs)


def _watched(participation: Participation) -> BuildSelection:
    """Chosen by `participation`; who it was and what they say of their models is logged, seed by seed."""

    def build(federation: Federation, learner: Learner) -> Selection:
        return Selection(
            participation(federation),
            rides=lambda local, client: local.report,
            seen=lambda cohort, reports: {"clients_by_seed": cohort.ids, "locals_by_seed": reports},
        )

    return build
