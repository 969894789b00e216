"""The command line called in this process, and what a test looks for in a run's folder."""

from pathlib import Path

from fedrl.cli import errors
from fedrl.cli.app import app
from fedrl.experiments import orders, restore


def call(*arguments: object) -> int:
    """`fedrl` with these arguments; the exit code."""
    return errors.guard(lambda: app([str(it) for it in arguments], prog_name="fedrl", standalone_mode=False))


def load_arm(run: Path, arm: str) -> restore.TrainedArm:
    order = orders.from_toml(run)
    return restore.load(order, run, arm, restore.arms(order, arm)[arm])
