"""The command line: `main` is what `fedrl` runs. Each command has a module, imported when it is asked for."""

from fedrl.cli.app import main

__all__ = ["main"]
