"""The notebooks of examples/ run from end to end, with few rounds."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


def small(source: str) -> str:
    source = source.replace("ROUNDS, SEEDS = 40, 8", "ROUNDS, SEEDS = 2, 2").replace("ROUNDS = 10", "ROUNDS = 2")
    return re.sub(r"steps=500", "steps=50", source)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
# Jupyter's own packages warn of each other's settings
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_a_notebook_runs_from_end_to_end(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "a notebook is stored without its results"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    before = [cell.source for cell in cells]
    for cell in cells:
        cell.source = small(cell.source)
    assert before != [cell.source for cell in cells]
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    said = "".join(out.get("text", "") for cell in cells for out in cell.outputs)
    drawn = [out for cell in cells for out in cell.outputs if "image/png" in out.get("data", {})]
    assert re.search(r"-?\d+\.\d", said)
    assert len(drawn) == 1
