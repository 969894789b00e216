"""`returns.safetensors`: the final return of every client, and the round it belongs to."""

from pathlib import Path

import numpy as np
from safetensors import safe_open

from fedrl.records.tensors import save_tree

NAME = "returns.safetensors"


def write(folder: Path, returns: np.ndarray, round: int) -> None:
    save_tree(folder / NAME, {"returns": returns}, {"rounds": str(round)})


def read(folder: Path) -> tuple[np.ndarray, int | None]:
    """Returns [seeds, clients] and their round, which files of earlier versions do not say.

    Raises OSError or SafetensorError if there is no whole file.
    """
    with safe_open(folder / NAME, "np") as file:
        round = (file.metadata() or {}).get("rounds")
        return file.get_tensor("returns"), None if round is None else int(round)
