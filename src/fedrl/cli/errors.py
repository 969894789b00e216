"""Errors that the user can fix become one sentence and exit code 2; anything else is a bug and keeps its traceback."""

import errno
import sys
import traceback
from collections.abc import Callable
from typing import Any

from fedrl.errors import FedRLError

STOPPED = 130  # the code that shells use for "stopped by Ctrl-C"
EXTRAS = {"mujoco": "mujoco", "ray": "ray", "flwr": "flower", "libsumo": "traffic", "sumolib": "traffic"}
EXTRAS |= dict.fromkeys(("onnx", "onnxruntime"), "export")
EXTRAS |= {"imageio_ffmpeg": "video", "cryptography": "flower"}
EXTRAS |= dict.fromkeys(("torch", "transformers", "peft", "tokenizers", "bm25s"), "llm")  # module -> extra
NOT_OURS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
}


def guard(command: Callable[[], Any]) -> int:
    """Run `command` and return the exit code."""
    try:
        code = command()
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # a compiled module turns Ctrl-C into its own ImportError
            return STOPPED
        sentence = explain(error)
        if sentence is None:
            raise
        print(f"fedrl: {' '.join(sentence.split())}", file=sys.stderr)
        return 2
    return code if isinstance(code, int) else 0


def explain(error: Exception) -> str | None:
    """The sentence for the user, or None if the error is a bug of ours."""
    if hasattr(error, "format_message"):  # typer's own: an invalid option or argument
        return _usage(error)
    if isinstance(error, ValueError | TypeError | FileNotFoundError) and (_deliberate(error) or _for_users(error)):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").split(".")[0])):
        return f"this needs {error.name}, which is not installed; pip install 'fedrl[{extra}]'"
    if isinstance(error, OSError) and (error.errno in NOT_OURS or _cannot_be_made(error)):
        return f"cannot use {error.filename or 'the disk'} ({error.strerror}); free it or pass another path"
    return None


def _cannot_be_made(error: OSError) -> bool:
    """Whether fedrl itself asked for a path that is not there; a user's own code or a library keeps its traceback."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    caller = next((name for name in reversed(modules) if name not in ("pathlib", "os")), "")
    return error.errno == errno.ENOENT and caller.startswith("fedrl.")


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "fedrl"
    message = error.format_message().strip().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; `{command} --help` shows what it takes"


def _for_users(error: Exception) -> bool:
    """Also where a user's own recipe raises it."""
    return isinstance(error, FedRLError)


def _deliberate(error: Exception) -> bool:
    """Whether fedrl itself raised it deliberately. One raised by a library that fedrl called is a bug of ours."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not str(frames[-1][0].f_globals.get("__name__")).startswith("fedrl."):
        return False
    return (traceback.extract_tb(error.__traceback__)[-1].line or "raise").startswith("raise")
