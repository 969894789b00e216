"""What the recipes of FedAgent share: an application, a model, whose task is whose, and how it is trained.

Needs the extra `llm`. The agents train with GRPO; the model has imitated public demonstrations first (`pocket`), which the
paper's have not: a measurement at round 0 shows what that alone gives.
"""

import hashlib
import importlib
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fedrl.algorithms.fedavg import fedavg
from fedrl.cache_folder import cache_folder
from fedrl.core.round import weighted_means
from fedrl.engines.local_processes import processes
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.federations.federation import Federation, Method
from fedrl.recipes.fedagent._config import Config
from fedrl.selection.participation import everyone, uniform
from fedrl.types import Algorithm, Cohort, Metrics

LOCAL = (21, 42, 84)  # the clients whose training alone the paper reports


class Study:
    """The pieces of a config, made once."""

    def __init__(self, config: Config) -> None:
        try:
            importlib.import_module("torch")  # first: where it is missing, transformers talks of it
            from fedrl.recipes.fedagent._pieces import pieces
        except ImportError as error:
            raise RecipeError(f"language agents need {error.name}: pip install 'fedrl[llm]'") from error
        self.config = config
        self.settings, self.spec, self.acting, self.evaluating, self.grpo = pieces(config)
        self.application = self.settings.build()
        self.lists = [self.application.pool[part] for part in self.parts()]

    def parts(self, seed: int = 0) -> list[np.ndarray]:
        """Each client's tasks, as places in the application's pool."""
        from fedrl.llm.partitions import coverage, hardness, preference, sizes
        from fedrl.llm.partitions import uniform as evenly

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
        from fedrl.llm import labels

        path = Path(self.config.labels)
        if not self.config.labels:
            words = repr((self.spec, self.settings, self.evaluating)).encode()
            path = cache_folder("labels") / f"{hashlib.sha256(words).hexdigest()[:20]}.json"
            if not path.exists():
                print(f"labelling {len(self.application.pool)} tasks by the model as it is now, once", file=sys.stderr)
            labels.label(self.spec, self.spec.init(jax.random.key(0)), self.settings, path, acting=self.evaluating)
        return labels.read(path, self.settings, self.application.pool)

    def arm(
        self, lists: list[np.ndarray], per_round: int, local_epochs: int, rounds: int, *, evaluate_clients: bool = False
    ) -> Arm:
        """`evaluate_clients`: every client also says how good its own model is when it has trained, for the log."""
        from fedrl.llm.adapters import of_products
        from fedrl.llm.evaluation import held_out, success
        from fedrl.llm.learner import grpo
        from fedrl.llm.tasks import federation

        config, environment = self.config, self.application.environment
        learner = grpo(
            self.spec,
            self.grpo,
            self.acting,
            tasks=config.tasks,
            group=config.group,
            learning_rate=config.learning_rate,
            local_steps=local_epochs,
            mu=config.mu,
            evaluate_own=success(self.spec, environment, self.application.held_out, self.evaluating)
            if evaluate_clients
            else None,
        )
        among = everyone() if per_round == len(lists) else uniform(per_round)
        chunks = min(2, len(lists))
        eval_every = max(1, config.eval_every * config.local_epochs // local_epochs)
        method = fedavg(learner, selection=among)
        method = _by_client(method) if evaluate_clients else method
        if config.model != "pocket" and config.rank:
            method = of_products(method, used=config.mean == "products")
        return Arm(
            method,
            federation(environment, lists),
            rounds,
            processes(),
            evaluation=held_out(
                self.spec, environment, self.application.held_out, acting=self.evaluating, chunks=chunks
            ),
            eval_every=min(eval_every, rounds),
        )

    def fedagent(self, *, evaluate_clients: bool = False) -> Arm:
        """Algorithm 1."""
        config = self.config
        return self.arm(
            self.lists, config.per_round, config.local_epochs, config.rounds, evaluate_clients=evaluate_clients
        )

    def centralised(self) -> Arm:
        """One learner with the tasks of all, as many epochs as a client of FedAgent sees in all rounds."""
        together = np.unique(np.concatenate(self.lists))
        return self.arm([together], 1, 1, self.config.rounds * self.config.local_epochs)

    def local(self, client: int) -> Arm:
        """One client that trains alone, for as many epochs."""
        return self.arm([self.lists[client % len(self.lists)]], 1, 1, self.config.rounds * self.config.local_epochs)


def _by_client(method: Method) -> Method:
    """`method`, of which the log also has who trained and what each says of its own model, seed by seed."""

    def report(metrics: Metrics, cohort: Cohort) -> Metrics:
        own = jnp.stack([metrics["own_success"], metrics["own_score"]], axis=-1)
        return weighted_means(metrics, cohort) | {"clients_by_seed": cohort.ids, "locals_by_seed": own}

    def build(federation: Federation) -> Algorithm:
        algorithm = method(federation)
        return algorithm.with_training(algorithm.training._replace(report=report))

    return build
