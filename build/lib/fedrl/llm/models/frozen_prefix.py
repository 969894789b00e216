"""What lies below the first layer that is trained is the same before and after training, and is computed once for both."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from fedrl.llm.models.model import Model


class Below:
    """The frozen layers of a model on one batch: computed in the first pass, and what came out given again in the next."""

    def __init__(self, model: Model) -> None:
        layers = (layer for layer in model.net.modules() if isinstance(layer, GradientCheckpointingLayer))
        self.layers = list(takewhile(_frozen, layers))
        self.found: Any = None  # what the last of them gave

    @contextmanager
    def once(self) -> Iterator[None]:
        """Around a pass over the batch; always the same batch."""
        if not self.layers:
            yield
        elif self.found is None:
            with self.layers[-1].register_forward_hook(self._keep):
                yield
        else:
            for layer in self.layers:
                layer.forward = self._again
            try:
                yield
            finally:
                for layer in self.layers:
                    del layer.forward

    def _keep(self, layer: torch.nn.Module, given: Any, found: Any) -> None:
        self.found = found

    def _again(self, *_: Any, **__: Any) -> Any:
        return self.found


def _frozen(layer: torch.nn.Module) -> bool:
    return not any(parameter.requires_grad for parameter in layer.parameters())
