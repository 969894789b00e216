"""What lies below the first layer that is trained is the same before and after training, and is computed once for both."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from fedrl.llm.models.model import Model


class FrozenPrefix:
    """The frozen layers of a model on one batch: computed in the first pass, and what came out given again in the next."""

    def __init__(self, model: Model) -> None:
        layers = (layer for layer in model.net.modules() if isinstance(layer, GradientCheckpointingLayer))
        self.layers = list(takewhile(_frozen, layers))
        self.output: Any = None  # what the last of them gave

    @contextmanager
    def computed_once(self) -> Iterator[None]:
        """Around a pass over the batch; always the same batch."""
        if not self.layers:
            yield
        elif self.output is None:
            with self.layers[-1].register_forward_hook(self._store_output):
                yield
        else:
            for layer in self.layers:
                layer.forward = self._stored_output
            try:
                yield
            finally:
                for layer in self.layers:
                    del layer.forward

    def _store_output(self, layer: torch.nn.Module, inputs: Any, output: Any) -> None:
        self.output = output

    def _stored_output(self, *_: Any, **__: Any) -> Any:
        return self.output


def _frozen(layer: torch.nn.Module) -> bool:
    return not any(parameter.requires_grad for parameter in layer.parameters())
