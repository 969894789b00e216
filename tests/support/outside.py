"""Places outside the repository: a recipe as a file, as a module, and as the entry point of an installed package."""

import shutil
from pathlib import Path

SOURCE = Path(__file__).with_name("small_recipe.py")


def copy_recipe(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(SOURCE, folder / f"{name}.py"))


def install(folder: Path, package: str, **entries: str) -> Path:
    """What pip leaves of a package that has these entry points of the group `fedrl.recipes`."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {target}" for name, target in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[fedrl.recipes]", *lines, ""]))
    return folder
