"""`fedrl new NAME`: a project that runs at once, to be changed from there."""

import keyword
import os
import re
import shlex
import sys
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path
from string import Template

from fedrl.cli import output
from fedrl.experiments import find
from fedrl.experiments.errors import RecipeError

NAME = re.compile(r"[A-Za-z]([\w-]*[A-Za-z0-9])?", re.ASCII)  # of a module, and of a project that pip takes
FILES = {  # in the project <- in the template
    "recipe.py": "recipe.py.txt",
    "test_recipe.py": "test_recipe.py.txt",
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
}


def create(folder: Path) -> None:
    name = Path(os.path.abspath(folder)).name
    module = name.replace("-", "_")
    if not NAME.fullmatch(name) or keyword.iskeyword(module):
        raise RecipeError(
            f"{name!r} cannot name a Python package; begin with a letter, go on with letters, digits, - and _, and end "
            "with a letter or digit: fedrl new water-tank"
        )
    if name in find.table():
        raise RecipeError(f"{name!r} is a recipe of fedrl; choose another name: fedrl new my-{name}")
    if _is_importable(module):
        raise RecipeError(
            f"a package {module} is there already, and the new one would hide it; try fedrl new my-{name}"
        )
    if folder.exists() and not folder.is_dir():
        raise RecipeError(f"{folder} is a file; choose another name or move it away")
    if folder.is_dir() and any(folder.iterdir()):
        raise RecipeError(f"{folder} is not empty; choose another name or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    words = {"name": name, "module": module, "title": module.replace("_", " ").capitalize()}
    template = files("fedrl.cli") / "project_template"
    for target, source in FILES.items():
        text = Template((template / source).read_text(encoding="utf-8")).substitute(words)
        (folder / target).write_text(text, encoding="utf-8")
    console = output.screen()
    output.say(console, f"{folder}: {', '.join(FILES)}")
    output.say(console, f"\nNext:  cd {shlex.quote(str(folder))} && fedrl run ./recipe.py    about a minute", "dim")
    output.say(console, "       README.md says what to change, and how to run it by name", "dim")


def _is_importable(module: str) -> bool:
    """Whether the name is Python's or an installed package's; folders without Python files in them are neither."""
    found = PathFinder.find_spec(module)
    return module in sys.stdlib_module_names or (found is not None and found.origin is not None)
