"""Saved policies of every kind with random arrays, as a file of a run would hold them."""

import json
from itertools import pairwise

import numpy as np
from gymnasium import spaces

from fedrl.environments.spaces import describe
from fedrl.policies.saved import FORMAT, SavedPolicy, from_parts

BOX = spaces.Box(np.array([-1, -np.inf, 2], np.float32), np.array([1, np.inf, 5], np.float32))
NESTED = spaces.Dict(
    {
        "b": spaces.Tuple([spaces.Discrete(3, start=2), spaces.Box(0, 255, (2, 2), np.uint8)]),
        "a": spaces.MultiDiscrete([2, 4]),
        "c": spaces.MultiBinary(3),
    }
)
FLAT = 16  # numbers of NESTED
NAMESAKES = spaces.Dict(
    {"action": BOX, "logits": BOX, "c0": BOX, "x0": BOX, "a/b": BOX, "a": spaces.Dict({"b": spaces.Discrete(3)})}
)  # parts named like what an exported graph has


def network(rng, sizes, prefix=""):
    arrays = {}
    for i, (n, m) in enumerate(pairwise(sizes)):
        arrays[f"{prefix}{i}/kernel"] = rng.normal(size=(n, m)) / n**0.5
        arrays[f"{prefix}{i}/bias"] = rng.normal(size=m)
    return arrays


def gaussian(rng, sizes):
    return network(rng, sizes, "layers/") | {"log_std": np.full(sizes[-1], -1.0)}


def saved(observations, actions, about, arrays, moments=None, rescale=False) -> SavedPolicy:
    """With one seed."""
    roles = {"parameters": {name: f"theta/{name}" for name in arrays}}
    tensors = {f"theta/{name}": np.asarray(value, np.float32)[None] for name, value in arrays.items()}
    if moments:
        roles["filter"] = {name: f"pooled/{name}" for name in moments}
        tensors |= {f"pooled/{name}": np.asarray(value, np.float32)[None] for name, value in moments.items()}
        about = about | {"filter": {"clip": 5.0, "epsilon": 1e-8}}
    header = {
        "format": FORMAT,
        "fedrl": "0",
        "method": "test",
        "policy": about,
        "tensors": roles,
        "observations": describe(observations, rescale=rescale),
        "actions": describe(actions, rescale=rescale),
        "seeds": {"axis": 0, "first": 7, "count": 1},
        "clients": 3,
        "rounds": 2,
    }
    text = {name: x if isinstance(x, str) else json.dumps(x) for name, x in header.items()}
    return from_parts(tensors, text, "test")


def every_kind() -> dict[str, SavedPolicy]:
    rng = np.random.default_rng(0)

    def seen(size):
        return {"total": 100.0, "mean": rng.normal(size=size), "squares": rng.uniform(10, 300, size)}

    def mlp(kind, layers, **more):
        return {"kind": f"{kind}-mlp", "layers": layers, "activation": "tanh"} | more

    def table(kind, **more):
        return {"kind": f"{kind}-table"} | more

    three, wide, deep = [3, 16, 4], [FLAT, 16, 11], [3, 64, 64, 2]
    choices, bits = spaces.MultiDiscrete([[2, 3], [4, 2]]), spaces.MultiBinary(3)
    whole = spaces.Box(0, 9, (2,), np.int32)
    states, actions = spaces.Discrete(6, start=-1), spaces.Discrete(3)
    return {
        "categorical": saved(
            BOX, spaces.Discrete(4, start=1), mlp("categorical", three), network(rng, three), seen(3)
        ),
        "multi": saved(NESTED, choices, mlp("multi-categorical", wide, sizes=[2, 3, 4, 2]), network(rng, wide)),
        "bits": saved(
            states, bits, mlp("multi-categorical", [6, 8, 6], sizes=[2, 2, 2]), network(rng, [6, 8, 6])
        ),
        "gaussian": saved(
            BOX, spaces.Box(-1, 2, (2, 1)), mlp("gaussian", deep, noise_held_for=3), gaussian(rng, deep), seen(3), True
        ),
        "namesakes": saved(
            NAMESAKES, actions, mlp("categorical", [18, 8, 3]), network(rng, [18, 8, 3]), seen(18)
        ),
        "whole": saved(NESTED, whole, mlp("gaussian", [FLAT, 8, 2]), gaussian(rng, [FLAT, 8, 2]), seen(FLAT)),
        "softmax": saved(states, actions, table("softmax"), {"value": rng.normal(size=(6, 3))}),
        "greedy": saved(states, actions, table("greedy"), {"value": rng.normal(size=(6, 3))}),
        "probability": saved(
            spaces.Discrete(2), actions, table("probability"), {"value": [[0, 0.5, 0.5], [1, 0, 0]]}
        ),
        "bit table": saved(
            spaces.Discrete(2), actions, table("bit-softmax", actions=3, bits=2), {"value": rng.normal(size=(2, 3, 2))}
        ),
    }  # fmt: skip
