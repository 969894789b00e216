"""A user's module with recipes, loaded from a file or imported by name; what goes wrong is one sentence.

What such a module defines travels to worker processes by value, as from a script: they need not be able to import it.
"""

import difflib
import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from fedrl.experiments.errors import RecipeError
from fedrl.experiments.recipe import Recipe
from fedrl.records import user_code

EXAMPLE = "`fedrl new NAME` writes one to start from"


def from_file(path: Path) -> ModuleType:
    """The module in the file `path`. Modules beside it can be imported, as from a script."""
    if not path.is_file():
        raise RecipeError(_missing(path))
    _search_in(path.parent)
    stem = re.sub(r"\W", "_", path.stem)
    name = f"recipe_{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # as the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise RecipeError(f"{path.name} cannot be loaded: {what_and_where(error, path)}; correct it there") from error
    cloudpickle.register_pickle_by_value(module)
    return module


def from_name(name: str, reference: str) -> ModuleType:
    """The module `name`, which may be in the current folder. `reference` is what errors call the recipe."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise RecipeError(
            f"{reference!r} is no name of a recipe, no file and no module:object; `fedrl recipes` lists names"
        )
    _search_in(Path.cwd())
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise RecipeError(
                f"there is no module {error.name!r}, where {reference} should be; give the command in the folder that has "
                "it, install it, or pass the recipe's file"
            ) from None
        raise RecipeError(
            f"{name} cannot be imported: {what_and_where(error, Path.cwd() / '_')}; correct it there"
        ) from error
    if user_code.is_users(module):
        cloudpickle.register_pickle_by_value(module)
    return module


def pick(module: ModuleType, item: str | None, source: str) -> Any:
    """The object `item` of a module, or its one recipe."""
    recipes: dict[str, Any] = {}
    for name, value in vars(module).items():
        if isinstance(value, Recipe) and not any(value is other for other in recipes.values()):
            recipes[name] = value
    label = Path(source).name
    if item:
        if not hasattr(module, item):
            near = difflib.get_close_matches(item, recipes or vars(module), n=1, cutoff=0.4)
            raise RecipeError(f"{label} has no {item!r}; " + (f"did you mean {near[0]}?" if near else EXAMPLE))
        return getattr(module, item)
    if not recipes:
        raise RecipeError(f"{label} defines no Recipe; add one, such as RECIPE = Recipe(…): {EXAMPLE}")
    if len(recipes) > 1:
        raise RecipeError(
            f"{label} defines {len(recipes)} recipes ({', '.join(recipes)}); say which: {label}:{next(iter(recipes))}"
        )
    return next(iter(recipes.values()))


def what_and_where(error: BaseException, path: Path) -> str:
    """The error in words, and the last line of the user's own code that it passed through."""
    if isinstance(error, SyntaxError):
        line = f"at line {error.lineno} of" if error.lineno else "in"
        return f"syntax error {line} {Path(error.filename or path).name} ({error.msg})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_beside(frame.filename, path)]
    where = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ") + where


def _is_beside(filename: str, path: Path) -> bool:
    return Path(filename).is_relative_to(path.parent) and user_code.PACKAGES.isdisjoint(Path(filename).parts)


def _missing(path: Path) -> str:
    beside = [file.stem for file in path.parent.glob("*.py") if file.is_file()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.stem, beside, n=1)
    return f"there is no file {path}; " + (
        f"did you mean {near[0]}.py?" if near else "pass the path of a recipe's file"
    )


def _search_in(folder: Path) -> None:
    """As `python -m` and scripts do."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
