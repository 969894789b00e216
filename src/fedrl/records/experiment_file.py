"""`experiment.pkl`: what a run was asked to do, with the user's own code, so that it can be opened again next week.

Four parts: a line with the format, a line with the signature of the rest (`signing.py`), a line of JSON that can be read
without running anything, and a pickle. Unpickling runs code, so `read` opens only what this user wrote on this machine.
"""

import io
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle

from fedrl.errors import FedRLError
from fedrl.records import signing, user_code
from fedrl.records.identity import versions
from fedrl.records.run_toml import RunFolderError, is_of_organisations, run_of_arm
from fedrl.records.tensors import write_atomically

NAME = "experiment.pkl"
FORMAT = b"fedrl-experiment/1"
MOST_BYTES = 256 * 2**20  # of the pickle: a run's folder is no place for a copy of a large data set
UNSIGNED = "unsigned"
AGAIN = "fedrl.train with the same arguments and this out stores it again"


class CannotStore(FedRLError, ValueError):
    """The experiment cannot be pickled; the message says why."""


class Parts(NamedTuple):
    signature: str
    about: dict[str, Any]
    signed: bytes  # the line of JSON and the pickle, as they are in the file
    pickle: bytes


def write(folder: Path, experiment: Any, *, rounds: int) -> None:
    """Store `experiment`, a record, or raise `CannotStore` and leave no file of an earlier call."""
    about = {"rounds": rounds, "versions": versions(), "path": [place or os.getcwd() for place in sys.path]}
    try:
        signed = json.dumps(about).encode() + b"\n" + _pickled(experiment)
    except CannotStore as error:
        (folder / NAME).unlink(missing_ok=True)
        raise CannotStore(_culprit(experiment) or str(error)) from error
    try:
        signature = signing.sign(signed)
    except OSError:
        signature = UNSIGNED
    write_atomically(folder / NAME, b"\n".join([FORMAT, signature.encode(), signed]))


def read(folder: Path, *, trust: bool = False) -> Any:
    """The experiment; a `RunFolderError` unless this user wrote it on this machine or the caller trusts it."""
    parts = parts_of(folder)
    if not trust and not signing.is_own(parts.signed, parts.signature):
        raise RunFolderError(
            f"{folder / NAME} was not written by you on this machine, and opening it runs the code inside; if you trust "
            "its maker, add --trust (in Python: fedrl.load(folder, trust=True))"
        )
    there, here = parts.about["versions"]["python"], versions()["python"]
    if there.split(".")[:2] != here.split(".")[:2]:
        raise RunFolderError(
            f"{folder / NAME} was written by Python {there} and holds compiled code, this is Python {here}; use the "
            f"other one, or {AGAIN}"
        )
    sys.path += [place for place in parts.about["path"] if place not in sys.path]
    try:
        return cloudpickle.loads(parts.pickle)
    except Exception as error:
        other = parts.about["versions"]["fedrl"]
        raise RunFolderError(
            f"{folder / NAME} cannot be opened ({type(error).__name__}: {error}; fedrl {other} wrote it, this is "
            f"{versions()['fedrl']}); {AGAIN}"
        ) from error


def parts_of(folder: Path) -> Parts:
    """The parts of the file; nothing is unpickled."""
    try:
        content = (folder / NAME).read_bytes()
    except OSError as error:
        raise RunFolderError(_missing(folder, error)) from None
    try:
        format, signature, signed = content.split(b"\n", 2)
        line, pickle = signed.split(b"\n", 1)
        about = json.loads(line)
        parts = Parts(signature.decode("ascii"), about, signed, pickle)
        whole = format == FORMAT and isinstance(about["rounds"], int) and isinstance(about["path"], list)
        whole = whole and isinstance(about["versions"]["python"], str) and isinstance(about["versions"]["fedrl"], str)
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise RunFolderError(f"{folder / NAME} is damaged or of another version of fedrl; {AGAIN}")
    return parts


def _missing(folder: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"cannot read {folder / NAME} ({error.strerror}); {AGAIN}"
    if home := run_of_arm(folder):
        return f"{folder} is an arm of a recipe's run, and the recipe builds its clients; pass the whole run, {home}"
    if is_of_organisations(folder):
        return (
            f"{folder} is the run of a federation between organisations, and its environments are at the sites; what works "
            "without them is `fedrl export`, `plot` and `cite`, in Python fedrl.load(folder).policy(), and read_policy at a "
            "site; `fedrl federation serve` continues the run"
        )
    return (
        f"{folder} has no {NAME} (it could not be stored, or an earlier version of fedrl wrote the run), so its clients "
        f"cannot be restored; {AGAIN}, and fedrl.load(folder).policy() works without it"
    )


def _pickled(experiment: Any) -> bytes:
    """With the user's own modules inside, or else, if they hold what cannot be pickled, naming them."""
    try:
        with _by_value(_users_modules()):
            return _dumps(experiment)
    except CannotStore:
        return _dumps(experiment)


def _culprit(experiment: Any) -> str | None:
    """The first part of the record that cannot be pickled, and why."""
    for name, part in experiment._asdict().items():
        try:
            _dumps(part)
        except CannotStore as error:
            return f"its {name}: {error}"
    return None


def _dumps(experiment: Any) -> bytes:
    stream = _Bounded()
    try:
        cloudpickle.dump(experiment, stream)
    except Exception as error:
        raise CannotStore(f"{type(error).__name__}: {error}") from error
    return stream.getvalue()


class _Bounded(io.BytesIO):
    def write(self, data: Any, /) -> int:
        if self.tell() + memoryview(data).nbytes > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MB")
        return super().write(data)


def _users_modules() -> list[ModuleType]:
    """Thousands of modules are imported and few are the user's: those whose path says so are passed over at once."""
    installed = tuple(filter(None, map(sysconfig.get_path, user_code.KNOWN)))
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and name == module.__name__ and not name.startswith(("fedrl.", "__main__"))
        if (file := getattr(module, "__file__", None)) and not file.startswith(installed) and user_code.is_users(module)
    ]


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    """Pickle what these modules define by value, as is always done with a script's own functions."""
    new = [module for module in modules if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)
