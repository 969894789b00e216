"""Layers below the first trained one give the same output before and after training, so it is computed only once."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from fedrl.llm.models.model import Model


class FrozenPrefix:
    """The frozen layers of a model on one batch: the first pass computes their output, later passes reuse it."""

    def __init__(self, model: Model) -> None:
        layers = (layer for layer in model.net.modules() if isinstance(layer, GradientCheckpointingLayer))
        self.layers = list(takewhile(_frozen, layers))
        self.output: Any = None  # of the last of them

    @contextmanager
    def computed_once(self) -> Iterator[None]:
        """Wrap each pass over the batch, which must always be the same one."""
        if not self.layers:
            yield
        elif self.output is None:
            with self.layers[-1].register_forward_hook(self._store_output):
                yield
        else:
            for layer in self.layers:
                layer.forward = self._return_output
            try:
                yield
            finally:
                for layer in self.layers:
                    del layer.forward

    def _store_output(self, layer: torch.nn.Module, inputs: Any, output: Any) -> None:
        self.output = output

    def _return_output(self, *_: Any, **__: Any) -> Any:
        return self.output


def _frozen(layer: torch.nn.Module) -> bool:
    return not any(parameter.requires_grad for parameter in layer.parameters())
