"""Types as a user's checker sees them: mypy reads the installed wheel, not the source tree."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fedrl.cache_folder import cache_folder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    """A virtual environment with nothing but the wheel; the libraries it needs are those of this one.

    It stays where mypy's cache knows it, so that only the first run reads all of JAX.
    """
    wheels, source = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src" / "fedrl", source / "src" / "fedrl", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(wheels)]
    subprocess.run([*build, str(source)], check=True, cwd=wheels, timeout=300)
    (wheel,) = wheels.glob("fedrl-*.whl")
    place = cache_folder("typed-wheel")
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(place)], check=True, timeout=120)
    (site,) = place.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        assert "fedrl/py.typed" in archive.namelist()
        archive.extractall(site)
    libraries = next(Path(folder) for folder in sys.path if folder.endswith("site-packages"))
    (site / "libraries.pth").write_text(f"{libraries}\n")
    return place / "bin" / "python"


def errors(interpreter: Path, file: str) -> dict[int, str]:
    """Line -> what mypy says of it."""
    cache = cache_folder("typed-wheel-mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        str(interpreter),
        "--cache-dir",
        str(cache),
    ]
    done = subprocess.run([*command, file], capture_output=True, text=True, cwd=HERE, timeout=600)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "import-untyped" not in done.stdout, done.stdout
    found = (re.match(rf"{re.escape(file)}:(\d+): error: (.*)", line) for line in done.stdout.splitlines())
    return {int(match[1]): match[2] for match in found if match}


def test_every_mistake_is_reported(interpreter):
    found = errors(interpreter, "wrong.py")
    numbered = {
        int(match[1]): line
        for line, text in enumerate((HERE / "wrong.py").read_text().splitlines(), start=1)
        if (match := re.search(r"# (\d+)$", text))
    }
    assert list(numbered) == list(range(1, 17))
    assert [number for number, line in numbered.items() if line not in found] == []


def test_what_is_right_passes(interpreter):
    assert errors(interpreter, "right.py") == {}
