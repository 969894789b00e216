"""The command line called in this process, and what a test looks for in a run's folder."""

from pathlib import Path

from fedrl.cli import errors
from fedrl.cli.app import app
from fedrl.experiments import orders, restore
from fedrl.trained import Trained


def call(*arguments: object) -> int:
    """`fedrl` with these arguments; the exit code."""
    return errors.guard(lambda: app([str(it) for it in arguments], prog_name="fedrl", standalone_mode=False))


def load_arm(run: Path, arm: str) -> Trained:
    order = orders.from_toml(run)
    return restore.arm_of(order, run, arm, restore.arms(order, arm)[arm])


def said(capsys, *arguments: object, code: int = 0) -> str:
    """What a command prints; if it is to fail, what it says on stderr."""
    capsys.readouterr()
    assert call(*arguments) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out
