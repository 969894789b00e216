"""What the on-policy actor-critics share: their settings, and the records of what travels, is kept and is looked at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from jax import Array

from fedrl.arguments import at_least
from fedrl.learners.reports import Report
from fedrl.policies import network
from fedrl.policies.filtered import Filters
from fedrl.policies.mlp import mlp
from fedrl.trees import Tree
from fedrl.types import BuildPolicy, Policy


class Theta(NamedTuple):
    """What travels: parameters, and what all clients have seen. In a displacement: what this client has seen meanwhile."""

    actor: Tree
    critic: network.Layers
    filters: Filters = Filters()  # none where every client keeps its own


class Memory(NamedTuple):
    """What a client keeps."""

    filters: Filters  # none where they are pooled
    actor: Any  # what improving the actor needs from one iteration to the next
    critic: Any  # optimiser state
    recent: Any  # the last iterations as one Trajectory, oldest first; () where nobody asks for them


class Iterate(NamedTuple):
    """A client in the middle of its local iterations."""

    theta: Theta
    memory: Memory
    message: Any
    env_steps: Array
    gathered: Filters  # of what it has seen since the message, where filters are pooled
    report: Report  # of its iterations so far


class Batch(NamedTuple):
    """What an improvement looks at, flat over copies and time."""

    obs: Any  # as the networks see it
    choice: Any
    log_prob: Array
    advantage: Array
    target: Array  # of the critic


class Improvement(NamedTuple):
    """How one batch makes an actor better; its advantages have mean zero and deviation one."""

    init: Callable  # (actor) -> the state that a client keeps for it, at the start
    improve: Callable  # (actor, state, batch, round, key) -> actor, state, named scalars of how it went
    reports: tuple[str, ...] = ()  # the names of those


BuildImprovement = Callable[[Policy], Improvement]


@dataclass(frozen=True)
class ActorCritic:
    """The settings that do not depend on how the actor is improved. The defaults are those of common PPO."""

    policy: BuildPolicy = mlp(64, 64, last=0.01)
    value: tuple[int, ...] = (64, 64)  # hidden layers of the critic
    steps: int = 2048  # environment steps per iteration,
    num_envs: int = 8  # in so many rows of whole and cut episodes
    local_steps: int = 1  # iterations between two rounds
    critic_learning_rate: float = 1e-3
    critic_epochs: int = 10  # 0: V stays, only the policy is improved
    critic_minibatch: int = 64
    gae_lambda: float = 0.95  # of GAE
    filter_observations: bool = True
    filter_rewards: bool = True
    # pooled: observation and reward statistics of all clients, summed at the server; own: each client keeps its own
    # (published code of Xie & Song 2025)
    filters: Literal["pooled", "own"] = "pooled"
    bootstrap: bool = True  # False: an episode that ran out of time is worth nothing more (004's published code)
    warm_up: int = 0  # steps per client that fill its filters (and memory) before the first round
    remember: int = 0  # iterations kept for methods that look at clients before choosing them

    def __post_init__(self) -> None:
        at_least(1, local_steps=self.local_steps, critic_minibatch=self.critic_minibatch)
        at_least(0, critic_learning_rate=self.critic_learning_rate, critic_epochs=self.critic_epochs)
        at_least(0, warm_up=self.warm_up, remember=self.remember)
        if not 0 <= self.gae_lambda <= 1:
            raise ValueError(f"lam of GAE must lie between 0 and 1, got {self.gae_lambda}; 0.95 is usual")
        if min(self.value, default=1) < 1:
            raise ValueError(f"value wants layers of at least 1 unit, got {self.value}; (64, 64) is usual")
        if self.steps < 1 or self.num_envs < 1 or self.steps % self.num_envs:
            raise ValueError(f"steps must be a positive multiple of copies, got {self.steps} and {self.num_envs}")
        if self.filters not in ("pooled", "own"):
            raise ValueError(f"filters must be 'pooled' or 'own', got {self.filters!r}")
        if self.warm_up < self.remember * self.steps:
            raise ValueError(
                f"a warm-up of {self.warm_up} steps does not fill a memory of {self.remember} iterations; "
                f"give warm_up={self.remember * self.steps}"
            )
