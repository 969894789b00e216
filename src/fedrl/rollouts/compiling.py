"""`jax.jit` for work that is timed: a listener is notified when a program compiles, which happens in its first call."""

from collections.abc import Callable
from typing import Any

import jax

OnCompile = Callable[[bool], None]  # True: compiling starts, False: it has ended


class CompileListener:
    """Called in this process; does nothing unless a worker replaces it."""

    notify: OnCompile = staticmethod(lambda compiling: None)


class Compiled:
    """A compiled function. When pickled it travels uncompiled, and the other process compiles it again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.program, self.first = function, jax.jit(function), True

    def __call__(self, *arguments: Any) -> Any:
        if not self.first:
            return self.program(*arguments)
        CompileListener.notify(True)
        try:
            return jax.block_until_ready(self.program(*arguments))
        finally:
            self.first = False
            CompileListener.notify(False)

    def __reduce__(self) -> tuple[type["Compiled"], tuple[Callable[..., Any]]]:
        return Compiled, (self.function,)
