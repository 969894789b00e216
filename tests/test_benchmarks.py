"""Every benchmark script runs at its smallest size; those whose extra is missing say so (some minutes)."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(file.name for file in FOLDER.glob("*.py") if "__main__" in file.read_text("utf-8"))
PATIENCE = 600.0  # seconds


def test_every_script_is_in_the_readme():
    told = (FOLDER / "README.md").read_text("utf-8")
    assert len(SCRIPTS) >= 11
    assert [name for name in SCRIPTS if f"benchmarks/{name}`" not in told] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(name, tmp_path):
    """To its end and with something to show, or it names the package that it lacks."""
    command = [sys.executable, str(FOLDER / name), "--smallest"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    if ended.returncode == 1 and ended.stderr.startswith("skipped: "):
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) >= 2 or name == "first_round.py", ended.stdout
