"""`numpy`: one Python file with the arrays inside, which imports nothing but NumPy."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedrl.export.program import Exported, Leaf, Program, Rescaling

RUNNER = Path(__file__).with_name("runner.py")
MARK = "  #: "
HELP = '''"""A policy that fedrl trained. Needs NumPy and nothing else:

    from {module} import act
    action = act(observation)                                   # the best action, for one observation or many
    action = act(observation, rng=np.random.default_rng(0))     # a drawn one

ABOUT says where it comes from.
"""
'''


def dump(program: Program, name: str) -> bytes:
    """The text of the file; `name` is the module's."""
    code = _code(program)
    names = set(re.findall(r"[A-Z_]{2,}", code))
    data = "\n".join(f"{name} = {value}" for name, value in _data(program).items() if name in names)
    about = json.loads(json.dumps(program.about))
    return f"{HELP.format(module=name)}\n{code}\n\n\n{data}\nABOUT = {about!r}\n".encode()


def traits(program: Program) -> set[str]:
    """The words in `runner.py` that are true of a policy."""
    action, box = program.action, not program.sizes
    found = {
        "table": program.table is not None,
        "network": program.table is None,
        "one-hot": any(leaf.sizes for leaf in program.leaves),
        "rescales": any(leaf.rescaling for leaf in program.leaves),
        "filter": program.scale is not None,
        "draws": program.draws,
        "choices": not box,
        "box": box,
        "fresh": box and program.hold == 1,
        "held": box and program.hold > 1,
        "rescaled": action.rescaling is not None,
        "whole": box and np.issubdtype(np.dtype(action.dtype), np.integer),
    }
    return {word for word, true in found.items() if true}


def load(content: bytes, program: Program) -> Exported:
    """By the code of the file, in a namespace of its own."""
    names: dict[str, Any] = {}
    exec(compile(content, "policy.py", "exec"), names)
    return lambda observations: (names["act"](observations), names["parameters"](observations)[0])


def _code(program: Program) -> str:
    """The runner without what this policy does not need."""
    have, kept = traits(program), []
    left_out: int | None = None  # how far the line was indented that was left out last, until another ends its block
    for line in RUNNER.read_text().splitlines():
        text, _, words = line.partition(MARK)
        depth = len(text) - len(text.lstrip())
        if text and (left_out is None or depth <= left_out):
            left_out = depth if text.startswith("#") or not have.issuperset(words.split()) else None
        if left_out is None:
            kept.append(text)
    inputs = ", ".join("obs" + "".join(f"[{step!r}]" for step in leaf.path) for leaf in program.leaves)
    return "\n".join(kept).strip().replace("[obs]", f"[{inputs}]")


def _data(program: Program) -> dict[str, str]:
    """The arrays and settings that the runner names."""
    action, leaves = program.action, dict(enumerate(program.leaves))
    one_hot = {i: f"({leaf.sizes}, {_array(_values(leaf))})" for i, leaf in leaves.items() if leaf.sizes}
    rescaled = {i: _arrays(leaf.rescaling) for i, leaf in leaves.items() if leaf.rescaling}
    layers = [f"    ({_arrays(layer)}),\n" for layer in program.layers]
    back = action.rescaling or Rescaling(*(np.zeros(0),) * 4)
    return {
        "DIMENSIONS": repr(len(leaves[0].shape)),
        "FIRST": repr(sum(leaves[0].start[:1])),
        "ONE_HOT": _dict(one_hot),
        "RESCALED": _dict({i: f"({arrays})" for i, arrays in rescaled.items()}),
        "MEAN": _array(program.mean),
        "SCALE": _array(program.scale),
        "CLIP": repr(program.clip),
        "LAYERS": f"[\n{''.join(layers)}]",
        "TABLE": _array(program.table),
        "SIZES": repr(program.sizes),
        "STD": _array(program.std),
        "HOLD": repr(program.hold),
        "HELD": "{}",
        "START": _array(action.start),
        "LOW": _array(action.low),
        "HIGH": _array(action.high),
        "BOUNDED": _array(back.bounded),
        "LOWEST": _array(back.low),
        "WIDTH": _array(back.width),
        "SHAPE": repr(action.shape),
        "DTYPE": repr(action.dtype),
    }


def _values(leaf: Leaf) -> np.ndarray:
    """Of whole numbers: all that each may be, side by side."""
    return np.concatenate([first + np.arange(size) for first, size in zip(leaf.start, leaf.sizes, strict=True)])


def _dict(items: dict[int, str]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in items.items())}}}"


def _arrays(arrays: Iterable[np.ndarray]) -> str:
    return ", ".join(map(_array, arrays))


def _array(array: np.ndarray | None) -> str:
    if array is None:
        return "None"
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return f'array("{little.dtype.str}", {array.shape}, "{little.tobytes().hex()}")'
