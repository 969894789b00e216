"""`jax.jit` for work that is timed: who keeps the time is told when a program compiles, which is its first call."""

from collections.abc import Callable
from typing import Any

import jax

Turn = Callable[[bool], None]  # True: compiling begins, False: it is over


class Callback:
    """Who is told in this process; nobody, unless a worker says otherwise."""

    turn: Turn = staticmethod(lambda held: None)


class Compiled:
    """A compiled function. It travels to other processes, which compile it anew."""

    def __init__(self, function: Callable):
        self.function, self.program, self.first = function, jax.jit(function), True

    def __call__(self, *arguments: Any) -> Any:
        if not self.first:
            return self.program(*arguments)
        Callback.turn(True)
        try:
            return jax.block_until_ready(self.program(*arguments))
        finally:
            self.first = False
            Callback.turn(False)

    def __reduce__(self) -> tuple:
        return Compiled, (self.function,)
