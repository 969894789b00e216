"""Which model, and how it is opened: once in every process that needs it."""

from functools import lru_cache
from typing import Protocol

import torch

from fedrl.keys import Key
from fedrl.llm.context import PromptFormatter
from fedrl.llm.models.model import Model, Theta


class Spec(Protocol):
    """A model by name: small, hashable, and the same in every process. `threads` decide numbers, so they belong to it."""

    @property
    def threads(self) -> int: ...

    def __hash__(self) -> int: ...

    def open(self) -> Model:
        """The model, ready to be trained."""
        ...

    def formatter(self) -> PromptFormatter:
        """How episodes are told to it."""
        ...

    def init(self, key: Key) -> Theta:
        """What training starts from."""
        ...

    def first(self) -> Theta | None:
        """The reference of the KL term: theta_0, or None where that is the model without its adapters."""
        ...


def open_model(spec: Spec) -> Model:
    """Reproducible on a processor: with the threads of this spec, also if another has been at work since."""
    torch.set_num_threads(spec.threads)
    torch.use_deterministic_algorithms(True)
    return _open_model(spec)


@lru_cache(maxsize=2)
def _open_model(spec: Spec) -> Model:
    return spec.open()
