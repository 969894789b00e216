"""The settings that all actor-critics share."""

from dataclasses import dataclass
from typing import Literal

import optax

from fedrl.arguments import at_least
from fedrl.learners.optimizers import adam
from fedrl.policies.mlp import mlp
from fedrl.types import BuildPolicy


@dataclass(frozen=True)
class ActorCritic:
    """The settings that do not depend on how the actor is improved. The defaults are those of common PPO."""

    policy: BuildPolicy = mlp(64, 64, last=0.01)
    value: tuple[int, ...] = (64, 64)  # hidden layers of the critic
    value_last: float = 1.0  # factor on the critic's last kernel at first, as `last` of the policy
    steps: int = 2048  # environment steps per iteration, over all `num_envs`
    num_envs: int = 8  # rows of steps / num_envs steps each; a new episode starts where one ends
    local_steps: int = 1  # iterations between two rounds
    critic_optimizer: optax.GradientTransformation = adam()  # of unit step
    critic_learning_rate: float = 1e-3
    critic_epochs: int = 10  # 0: V stays as it is, only the policy is improved
    critic_minibatch: int = 64
    gae_lambda: float = 0.95
    filter_observations: bool = True
    filter_rewards: bool = True
    # pooled: observation and reward statistics of all clients, summed at the server; own: each client keeps its own
    # (published code of xie2025)
    filters: Literal["pooled", "own"] = "pooled"
    bootstrap: bool = True  # False: V counts as zero where an episode is truncated (published code of xie2025)
    warm_up: int = 0  # steps per client that fill its filters (and memory) before the first round
    remember: int = 0  # iterations that a client remembers, for selections that evaluate clients before choosing

    def __post_init__(self) -> None:
        at_least(1, local_steps=self.local_steps, critic_minibatch=self.critic_minibatch)
        at_least(0, critic_learning_rate=self.critic_learning_rate, critic_epochs=self.critic_epochs)
        at_least(0, warm_up=self.warm_up, remember=self.remember)
        if not 0 <= self.gae_lambda <= 1:
            raise ValueError(f"gae_lambda must lie between 0 and 1, got {self.gae_lambda}; 0.95 is usual")
        if min(self.value, default=1) < 1:
            raise ValueError(f"value needs layers of at least 1 unit, got {self.value}; (64, 64) is usual")
        if self.steps < 1 or self.num_envs < 1 or self.steps % self.num_envs:
            raise ValueError(f"steps must be a positive multiple of num_envs, got {self.steps} and {self.num_envs}")
        if self.filters not in ("pooled", "own"):
            raise ValueError(f"filters must be 'pooled' or 'own', got {self.filters!r}")
        if self.warm_up < self.remember * self.steps:
            raise ValueError(
                f"a warm-up of {self.warm_up} steps does not fill a memory of {self.remember} iterations; "
                f"give warm_up={self.remember * self.steps}"
            )

    @property
    def horizon(self) -> int:
        """Steps per row of a roll-out."""
        return self.steps // self.num_envs
