"""The planted mistakes can still be planted, and the script that plants them tells noticed from unnoticed."""

import sys

import mutants
import pytest
from mutants import KILLED, STALE, SURVIVED, Mutant

MUTANTS = {mutant.name: mutant for mutant in mutants.read()}
FINDS = "import importlib.util, pathlib\nSOURCE = pathlib.Path(importlib.util.find_spec('fedrl').origin).parent\n"
CATCHES = (
    FINDS + "def test_it(): assert 'factor * x, tree' in (SOURCE / 'trees.py').read_text()\n"
)  # without importing JAX
IGNORES = FINDS + "def test_it(): assert 'factor * x' in (SOURCE / 'trees.py').read_text()\n"
HALF = Mutant("scale halves", "trees.py", "lambda x: factor * x, tree", "lambda x: factor * x / 2, tree", [], "")


@pytest.mark.parametrize("name", MUTANTS)
def test_no_entry_is_stale(name):
    """The old text is there exactly once, the new one differs, and the tests named exist."""
    mutant = MUTANTS[name]
    assert mutants.stale(mutant) == ""
    assert mutant.new != mutant.old
    assert mutant.why
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}" in (mutants.TESTS / file).read_text(encoding="utf-8"), test


def test_names_are_unique_and_there_are_enough():
    assert len(MUTANTS) == len(mutants.read()) >= 60


def planted(monkeypatch, tmp_path, mutant: Mutant, test: str, limit: float = 300.0) -> tuple[str, str]:
    """The verdict on a mistake in the real source, by a test file of our own."""
    (tmp_path / "test_own.py").write_text(test)
    monkeypatch.setattr(mutants, "TESTS", tmp_path)
    return mutants.planted(mutant._replace(tests=["test_own.py"]), limit)


@pytest.mark.parametrize(
    ("mutant", "test", "verdict", "said"),
    [
        (HALF, CATCHES, KILLED, "test_own.py::test_it"),
        (HALF, IGNORES, SURVIVED, ""),
        (HALF, "import no_such_module", STALE, "pytest ended with code 2"),  # not a test that failed
        (HALF._replace(old="no such text"), CATCHES, STALE, "the old text occurs 0 times in trees.py"),
    ],
)
def test_what_the_script_says(monkeypatch, tmp_path, mutant, test, verdict, said):
    before = (mutants.ROOT / "src" / "fedrl" / HALF.file).read_bytes()
    found = planted(monkeypatch, tmp_path, mutant, test)
    assert found[0] == verdict, found
    assert said in found[1]
    assert (mutants.ROOT / "src" / "fedrl" / HALF.file).read_bytes() == before


def test_a_hang_is_noticed(monkeypatch, tmp_path):
    hangs = "def test_it():\n    import time\n    time.sleep(99)\n"
    assert planted(monkeypatch, tmp_path, HALF, hangs, limit=3.0) == (KILLED, "hung for 3 s")


def test_listing_plants_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mutants.py", "--list", "alpha is ignored"])
    monkeypatch.setattr(mutants, "planted", pytest.fail)
    assert mutants.main() == 0
    assert capsys.readouterr().out.startswith("LoRA's alpha is ignored\n    llm/models/model.py: ")
