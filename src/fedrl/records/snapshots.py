"""Snapshots of evaluated rounds beside the log, e.g. the parameters: `kept/round-000120.safetensors`."""

import re
from collections.abc import Iterator
from pathlib import Path

from fedrl.records.tensors import load_tree, save_tree
from fedrl.trees import Tree


def save(folder: Path, round: int, tree: Tree) -> None:
    place = folder / "kept"
    place.mkdir(exist_ok=True)
    save_tree(place / f"round-{round:06d}.safetensors", tree)


def load(folder: Path, like: Tree) -> Iterator[tuple[int, Tree]]:
    """The rounds with a snapshot, in order, and the snapshot; `like` gives its structure."""
    for path in sorted((folder / "kept").glob("round-*.safetensors")):
        yield int(re.sub(r"\D", "", path.stem)), load_tree(path, like)
