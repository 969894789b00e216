"""`torch`: a program of `torch.export` (.pt2), from the environment's own observations to its own actions.

Such a file holds the whole computation, not only weights: `torch.export.load(file).module()` runs wherever PyTorch is, with
no class of ours to import and nothing pickled, and AOTInductor compiles it for C++. A state_dict would need the source of a
module beside it. Inputs are the arrays of an observation in the order of "inputs", each with a leading batch axis; results
are the action and what it is chosen by. The file's "fedrl.json" says what all of it means.
"""

import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedrl.export.program import Exported, Leaf, Program, arrays_of

ABOUT = "fedrl.json"
Of = Callable[[str], Any]  # (name) -> buffer of the module


def dump(program: Program, name: str) -> bytes:
    import torch

    module = _module(program)
    with torch.no_grad():
        examples = tuple(_example(leaf) for leaf in program.leaves)
        batch = torch.export.Dim("batch")
        exported = torch.export.export(module, examples, dynamic_shapes=(tuple({0: batch} for _ in examples),))
    file = io.BytesIO()
    torch.export.save(exported, file, extra_files={ABOUT: json.dumps(program.about)})
    return file.getvalue()


def load(content: bytes, program: Program) -> Exported:
    import torch

    module = torch.export.load(io.BytesIO(content)).module()

    def act(observations: Any) -> tuple[np.ndarray, np.ndarray]:
        arrays = arrays_of(program, observations).values()
        action, parameters, *_ = module(*(torch.from_numpy(array) for array in arrays))
        return action.numpy(), parameters.numpy()

    return act


def _example(leaf: Leaf) -> Any:
    import torch

    start = np.reshape(leaf.start, leaf.shape) if leaf.sizes else np.zeros(leaf.shape)
    return torch.from_numpy(np.broadcast_to(start, (2, *leaf.shape)).astype(leaf.dtype))


def _module(program: Program) -> Any:
    """A module whose buffers are the program's arrays."""
    import torch

    class Policy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, array in _arrays(program).items():
                self.register_buffer(name, torch.from_numpy(np.array(array, order="C")))

        def forward(self, *inputs: Any) -> Any:
            parameters = _parameters(program, partial(getattr, self), inputs)
            more = (getattr(self, "std").clone(),) if program.std is not None else ()  # noqa: B009
            return _action(program, partial(getattr, self), parameters), parameters, *more

    return Policy().eval()


def _arrays(program: Program) -> dict[str, np.ndarray]:
    action = program.action
    arrays: dict[str, np.ndarray | None] = {"mean": program.mean, "scale": program.scale, "table": program.table}
    arrays |= {"std": program.std, "start": action.start, "lowest": action.low, "highest": action.high}
    rescalings = {"action": action.rescaling} | {f"in{i}": leaf.rescaling for i, leaf in enumerate(program.leaves)}
    for name, rescaling in rescalings.items():
        if rescaling is not None:
            arrays |= {f"{name}_{field}": value for field, value in rescaling._asdict().items()}
    for i, layer in enumerate(program.layers):
        arrays |= {f"kernel{i}": layer.kernel, f"bias{i}": layer.bias}
    return {name: array for name, array in arrays.items() if array is not None}


def _parameters(program: Program, of: Of, inputs: Sequence[Any]) -> Any:
    import torch

    if program.table is not None:
        return of("table")[inputs[0].long() - program.leaves[0].start[0]]
    x = torch.cat([_row(program.leaves[i], i, of, x) for i, x in enumerate(inputs)], dim=1)
    if program.scale is not None:
        x = ((x - of("mean")) / of("scale")).clamp(-program.clip, program.clip)
    for i in range(len(program.layers)):
        x = (torch.tanh(x) if i else x) @ of(f"kernel{i}") + of(f"bias{i}")
    return x


def _row(leaf: Leaf, place: int, of: Of, x: Any) -> Any:
    """The leaf as the network reads it, float32 [batch, width]."""
    import torch

    x = x.reshape(x.shape[0], -1)
    if leaf.sizes:
        columns = [torch.eye(size)[x[:, i].long() - leaf.start[i]] for i, size in enumerate(leaf.sizes)]
        return torch.cat(columns, dim=1)
    if leaf.rescaling is not None:
        bounded, low, width, shift = (of(f"in{place}_{field}") for field in leaf.rescaling._fields)
        x = torch.where(bounded, 2.0 * (x.double() - low) / width - shift, x.double())
    return x.float()


def _action(program: Program, of: Of, x: Any) -> Any:
    import torch

    action = program.action
    if program.sizes:
        parts = torch.split(x, list(program.sizes), dim=1)
        x = torch.stack([part.argmax(dim=1) for part in parts], dim=1) + of("start")
    else:
        if action.rescaling is not None:
            bounded, low, width, _ = (of(f"action_{field}") for field in action.rescaling._fields)
            share = ((x.clamp(-1.0, 1.0) + 1.0) / 2.0).double()
            x = torch.where(bounded, low + share * width, x.double())
        x = torch.minimum(torch.maximum(x.double(), of("lowest")), of("highest"))
        x = x.round() if np.issubdtype(np.dtype(action.dtype), np.integer) else x
    return x.reshape(-1, *action.shape).to(getattr(torch, action.dtype))
