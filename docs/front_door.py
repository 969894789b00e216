"""For mkdocstrings: where a package offers a function and has a file of the same name, the function is what a user writes.

`fedrl.algorithms.fedavg` is a function to Python (`tests/test_front_door.py`), but a module to Griffe, which reads files.
"""

from typing import Any

import griffe


class FrontDoor(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for front in list(pkg.modules.values()):
            offered = [str(name) for name in front.exports or ()]
            for name in offered:  # resolve all before any file is hidden
                if isinstance(member := front.members.get(name), griffe.Alias):
                    member.resolve_target()
            for name in offered:
                file = front.members.get(name)
                if isinstance(file, griffe.Module) and front.imports.get(name) == f"{file.path}.{name}":
                    front.set_member(name, griffe.Alias(name, file.members[name], parent=front))
