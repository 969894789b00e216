"""`onnx`: one graph for any ONNX runtime, from the environment's own observations to its own actions.

Inputs are the arrays of an observation, each with a leading batch axis: "observation", or of a Dict or Tuple one for each
part, named by its path. Outputs are "action" (the most likely one) and what it is chosen by: "logits" of a categorical
("values" of a policy that never draws), or "mean" and "std" of a Gaussian. Opset 17, which runtimes since 2022 read.
"""

import json
from typing import Any

import numpy as np

from fedrl.export.program import Exported, Leaf, Program, arrays_of

OPSET, IR = 17, 8
BATCH = "batch"


class _Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Any, dtype: Any = None) -> str:
        from onnx import numpy_helper

        name = f"/c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        out = out or f"/x{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [out], **attributes))
        return out

    def cast(self, x: str, dtype: Any, out: str | None = None) -> str:
        return self.add("Cast", x, out=out, to=_type(dtype))

    def rows(self, x: str, shape: tuple[int, ...], out: str | None = None) -> str:
        """x with a leading batch axis and rows of this shape."""
        return self.add("Reshape", x, self.constant([-1, *shape], np.int64), out=out)


def dump(program: Program, name: str) -> bytes:
    from onnx import checker, helper

    graph = _Graph()
    if program.table is not None:
        state = graph.add(
            "Sub", graph.cast("observation", np.int64), graph.constant(program.leaves[0].start[0], np.int64)
        )
        found = graph.add("Gather", graph.constant(program.table), state, out=program.outputs[1])
    else:
        found = _network(graph, program)
    _action(graph, program, found)
    if program.std is not None:
        graph.add("Identity", graph.constant(program.std), out="std")
    inputs = [
        helper.make_tensor_value_info(leaf.name, _type(leaf.dtype), [BATCH, *leaf.shape]) for leaf in program.leaves
    ]
    width = len(program.std) if program.std is not None else sum(program.sizes)
    outputs: dict[str, tuple[Any, list[str | int]]] = {
        "action": (program.action.dtype, [BATCH, *program.action.shape]),
        program.outputs[1]: (_dtype_of_parameters(program), [BATCH, width]),
        "std": (np.float32, [width]),
    }
    described = [helper.make_tensor_value_info(out, _type(outputs[out][0]), outputs[out][1]) for out in program.outputs]
    model = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, described, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="fedrl",
        producer_version=str(program.about.get("fedrl", "")),
    )
    text = {key: x if isinstance(x, str) else json.dumps(x) for key, x in program.about.items()}
    helper.set_model_props(model, text)
    checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def load(content: bytes, program: Program) -> Exported:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def act(observations: Any) -> tuple[np.ndarray, np.ndarray]:
        action, parameters, *_ = session.run(None, arrays_of(program, observations))
        return action, parameters

    return act


def _network(graph: _Graph, program: Program) -> str:
    rows = [_row(graph, leaf) for leaf in program.leaves]
    x = rows[0] if len(rows) == 1 else graph.add("Concat", *rows, axis=1)
    if program.scale is not None:
        x = graph.add("Sub", x, graph.constant(program.mean))
        x = graph.add("Div", x, graph.constant(program.scale))
        x = graph.add("Clip", x, graph.constant(-program.clip, np.float32), graph.constant(program.clip, np.float32))
    last = len(program.layers) - 1
    for i, (kernel, bias) in enumerate(program.layers):
        x = graph.add("MatMul", x, graph.constant(kernel))
        x = graph.add("Add", x, graph.constant(bias), out=program.outputs[1] if i == last else None)
        x = x if i == last else graph.add("Tanh", x)
    return x


def _row(graph: _Graph, leaf: Leaf) -> str:
    """The leaf as the network reads it, float32 [batch, width]."""
    x = graph.rows(leaf.name, (len(leaf.sizes) or leaf.width,))
    if leaf.sizes:
        counted = graph.add("Sub", graph.cast(x, np.int64), graph.constant(leaf.start, np.int64))
        columns = [
            graph.add("Gather", graph.constant(np.eye(size), np.float32),
                      graph.add("Gather", counted, graph.constant(i, np.int64), axis=1))
            for i, size in enumerate(leaf.sizes)
        ]  # fmt: skip
        return columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)
    if leaf.rescaling is not None:
        bounded, low, width, shift = leaf.rescaling
        x = graph.cast(x, np.float64)
        share = graph.add("Mul", graph.constant(2.0, np.float64), graph.add("Sub", x, graph.constant(low)))
        share = graph.add("Sub", graph.add("Div", share, graph.constant(width)), graph.constant(shift))
        x = graph.add("Where", graph.constant(bounded), share, x)
    return graph.cast(x, np.float32)


def _action(graph: _Graph, program: Program, parameters: str) -> None:
    action = program.action
    if program.sizes:
        ends = np.cumsum(program.sizes)
        choices = [
            graph.add("ArgMax", _columns(graph, parameters, int(end) - size, int(end)), axis=1, keepdims=1)
            for end, size in zip(ends, program.sizes, strict=True)
        ]
        x = choices[0] if len(choices) == 1 else graph.add("Concat", *choices, axis=1)
        x = graph.add("Add", x, graph.constant(action.start, np.int64))
    else:
        x = parameters
        if action.rescaling is not None:
            bounded, low, width, _ = action.rescaling
            one, two = graph.constant(1.0, np.float32), graph.constant(2.0, np.float32)
            share = graph.add("Clip", x, graph.constant(-1.0, np.float32), one)
            share = graph.cast(graph.add("Div", graph.add("Add", share, one), two), np.float64)
            back = graph.add("Add", graph.constant(low), graph.add("Mul", share, graph.constant(width)))
            x = graph.add("Where", graph.constant(bounded), back, graph.cast(x, np.float64))
        else:
            x = graph.cast(x, np.float64)
        x = graph.add("Min", graph.add("Max", x, graph.constant(action.low)), graph.constant(action.high))
        if np.issubdtype(np.dtype(action.dtype), np.integer):
            x = graph.add("Round", x)
    graph.cast(graph.rows(x, action.shape), action.dtype, out="action")


def _columns(graph: _Graph, x: str, first: int, end: int) -> str:
    bounds = (graph.constant([number], np.int64) for number in (first, end, 1))
    return graph.add("Slice", x, *bounds)


def _dtype_of_parameters(program: Program) -> Any:
    return np.float32 if program.table is None else program.table.dtype


def _type(dtype: Any) -> int:
    from onnx import helper

    code: int = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return code
