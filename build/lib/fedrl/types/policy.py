"""How parameters become actions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from jax import Array

from fedrl.keys import Key


class InitParameters(Protocol):
    """The first parameters."""

    def __call__(self, key: Key, /) -> Any: ...


class Prepare(Protocol):
    """What `SampleChoice` needs of theta, computed once per roll-out."""

    def __call__(self, theta: Any, /) -> Any: ...


class DrawNoise(Protocol):
    """Noise for `SampleChoice`, drawn in bulk: [*shape, ...]."""

    def __call__(self, key: Key, shape: tuple[int, ...], /) -> Any: ...


class SampleChoice(Protocol):
    """The choice for one observation; a deterministic function of the noise."""

    def __call__(self, prepared: Any, obs: Any, noise: Any, /) -> Any: ...


class ToAction(Protocol):
    """The action that a choice stands for."""

    def __call__(self, choice: Any, /) -> Any: ...


class LogProbs(Protocol):
    """[..., k] log-probabilities of the k decisions that make up each choice."""

    def __call__(self, theta: Any, obs: Any, choice: Any, /) -> Array: ...


class Entropy(Protocol):
    """[...] entropy at each observation, in closed form."""

    def __call__(self, theta: Any, obs: Any, /) -> Array: ...


class Tsallis(Protocol):
    """[...] Tsallis entropy S_q in closed form, `Entropy` at q = 1."""

    def __call__(self, theta: Any, obs: Any, q: float, /) -> Array: ...


class Divergence(Protocol):
    """[...] KL(theta || other) at each observation, in closed form."""

    def __call__(self, theta: Any, other: Any, obs: Any, /) -> Array: ...


class Table(Protocol):
    """[states, choices, k] log-probabilities, where observations are finite."""

    def __call__(self, theta: Any, /) -> Array: ...


class HostAct(Protocol):
    """NumPy's `SampleChoice`, for a batch [B]: choices and actions. Noise None: the most likely choice."""

    def __call__(self, theta: Any, obs: Any, noise: Any, /) -> tuple[Any, Any]: ...


class Mostly(Protocol):
    """The most likely choice at each observation [...], the first of several (argmax, mean)."""

    def __call__(self, theta: Any, obs: Any, /) -> Any: ...


class Policy(NamedTuple):
    """How parameters become actions, step by step. A *choice* is what is drawn and remembered, an *action* what the
    environment is given. They differ where several choices mean one action (padding to a power of two, clipping).
    """

    init: InitParameters
    prepare: Prepare
    noise: DrawNoise
    sample: SampleChoice
    action: ToAction
    log_probs: LogProbs
    entropy: Entropy | None = None
    tsallis: Tsallis | None = None
    kl: Divergence | None = None
    table: Table | None = None
    host: HostAct | None = None
    mode: Mostly | None = None
    decisions: int = 1  # k
    hold: int = 1  # steps for which a roll-out uses one draw of noise before it takes the next
    actions: int = 0  # how many actions there are, where they are finite
    about: dict[str, Any] | None = None  # what a stranger must know to act with saved parameters, as JSON can hold it:
    #                                      "kind", and by kind "layers", "activation", "actions", …


class AnyPolicy(Protocol):
    """What every policy has, whether it acts step by step (`Policy`) or by whole episodes (`llm.policy.LanguagePolicy`)."""

    @property
    def init(self) -> InitParameters: ...

    @property
    def about(self) -> Mapping[str, Any] | None: ...


BuildPolicy = Callable[[Any], Policy]  # (environment); a table needs finite observations and actions, a network any


def stepwise(policy: AnyPolicy) -> Policy:
    """`policy`, or a `TypeError` if it does not act step by step."""
    if isinstance(policy, Policy):
        return policy
    kind = (policy.about or {}).get("kind", type(policy).__name__)
    raise TypeError(
        f"this needs a policy that acts step by step, got one of kind {kind!r}, which acts by whole episodes; "
        "for language agents use evaluation=fedrl.llm.evaluation.held_out(...)"
    )
