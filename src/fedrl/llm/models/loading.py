"""Model specifications, and opening a model once in every process that needs it."""

from functools import lru_cache
from typing import Protocol

import torch

from fedrl.keys import Key
from fedrl.llm.context import PromptFormatter
from fedrl.llm.models.model import Model, Theta


class Spec(Protocol):
    """A model by name: small, hashable, and the same in every process. `threads` affects results, so it is a part."""

    @property
    def threads(self) -> int: ...

    def __hash__(self) -> int: ...

    def open(self) -> Model:
        """The model, ready for training."""
        ...

    def formatter(self) -> PromptFormatter:
        """Formats episodes as its prompts."""
        ...

    def init(self, key: Key) -> Theta:
        """theta_0, where training starts."""
        ...

    def first(self) -> Theta | None:
        """The reference of the KL term: theta_0, or None if that is the model without its adapters."""
        ...


def open_model(spec: Spec) -> Model:
    """Open it with the thread count of this spec, even if another spec was used since; CPU results are then reproducible."""
    torch.set_num_threads(spec.threads)
    torch.use_deterministic_algorithms(True)
    return _open_model(spec)


@lru_cache(maxsize=2)
def _open_model(spec: Spec) -> Model:
    return spec.open()
