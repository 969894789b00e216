"""Acts with a `policy.safetensors` knowing only its header: NumPy and the standard library, nothing of fedrl."""

import json
from pathlib import Path

import numpy as np


def policy(path, seed):
    raw = Path(path).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8:start])
    about = {name: json.loads(text) for name, text in entries["__metadata__"].items() if text[0] in "{["}

    def tensor(name):
        begin, end = entries[name]["data_offsets"]
        return np.frombuffer(raw[start + begin : start + end], "<f4").reshape(entries[name]["shape"])[seed]

    roles = {group: {role: tensor(name) for role, name in of.items()} for group, of in about["tensors"].items()}
    arrays, moments, kind = roles["parameters"], roles.get("filter"), about["policy"]
    gaussian = kind["kind"] == "gaussian-mlp"
    last = len(kind["layers"]) - 2

    def act(x):
        if moments:
            spread = 1.0
            if moments["total"] > 1:
                spread = np.sqrt(moments["squares"] / (moments["total"] - 1)) + kind["filter"]["epsilon"]
            x = np.clip((x - moments["mean"]) / spread, -kind["filter"]["clip"], kind["filter"]["clip"])
        for i in range(last + 1):
            layer = f"{'layers/' * gaussian}{i}"
            x = x @ arrays[f"{layer}/kernel"] + arrays[f"{layer}/bias"]
            x = np.tanh(x) if i < last else x
        return np.clip(x, about["actions"]["low"], about["actions"]["high"]) if gaussian else int(np.argmax(x))

    return act
