"""The files of a language model: all have the same, by their SHA-256 in federation.toml [model.files]."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedrl.organisations import templates
from fedrl.organisations.tables import FileError

KINDS = (".jinja", ".json", ".model", ".safetensors", ".tiktoken", ".txt")  # that change what a model does
NO_FILES = "federation.toml has no [model.files]"
CONFIG, WEIGHTS = "config.json", ".safetensors"


class NotAgreed(FileError):
    """federation.toml does not say which model it is; `proposal` has the lines to paste, if all of it is in `folder`."""

    def __init__(self, folder: Path, found: Mapping[str, str]):
        where = "`fedrl federation check` at a site that has the whole model prints the table to paste"
        super().__init__(f"{NO_FILES}; {where}")
        whole = any(name.endswith(WEIGHTS) for name in found)
        self.proposal = (
            f"if all have the model in {folder}, the operator adds this and hands the file out:\n{to_toml(found)}"
            if whole
            else f"{folder} has no weights (*{WEIGHTS}), which sites need, so this must come from a site: {where}"
        )


def digests(folder: Path) -> dict[str, str]:
    """Of every file that counts, by its name."""
    files = sorted(path for path in folder.iterdir() if path.suffix in KINDS and path.is_file())
    return {path.name: _digest(path) for path in files}


def check(folder: Path, agreed: Mapping[str, str], needed: Sequence[str] = ()) -> None:
    """Raise unless `folder` has the agreed files: those `needed`, or without any all of them, and no others that count."""
    if not folder.is_dir():
        raise FileError(
            f"there is no folder {folder}, where the language model should be; put it there, or a link to it"
        )
    if not (folder / CONFIG).is_file():
        raise FileError(f"{folder} has no {CONFIG}, so it holds no language model; save_pretrained writes one")
    found = digests(folder)
    if not agreed:
        raise NotAgreed(folder, found)
    wanted = needed or list(agreed)
    if missing := [name for name in wanted if name not in found]:
        raise FileError(f"{folder} has no {missing[0]}, which federation.toml [model.files] names; copy it there")
    for name, digest in found.items():
        if name not in agreed:
            raise FileError(f"{folder} has {name}, which federation.toml [model.files] does not name; remove it")
        if digest != agreed[name]:
            raise FileError(
                f"{folder}: {name} is another than agreed (its SHA-256 begins with {digest[:12]}, in federation.toml "
                f"[model.files] with {agreed[name]!s:.12}); get the same model again"
            )


def to_toml(found: Mapping[str, str]) -> str:
    return f"[model.files]\n{templates.table(found)}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
