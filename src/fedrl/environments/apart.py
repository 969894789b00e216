"""A PettingZoo environment in a process of its own: several on SUMO at once, which libsumo alone cannot have."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Space
from pettingzoo import ParallelEnv


class Gone(RuntimeError):
    """The environment's process has died: killed, or out of memory. Its epoch is lost, but can be repeated elsewhere."""


class Apart(ParallelEnv[str, np.ndarray, np.ndarray]):
    """What `make()` makes, spawned: `Apart(FigureEight)`, `Apart(partial(Merge, warm_up=0))`. `make` has to be picklable.

    `call` reaches its other methods and attributes.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "is_parallelizable": True}

    def __init__(self, make: Callable[[], ParallelEnv]) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.agents: list[str] = []
        try:
            self.possible_agents: list[str] = self.call("possible_agents")
            agents = self.possible_agents
            self.observation_spaces: dict[str, Space] = {a: self.call("observation_space", a) for a in agents}
            self.action_spaces: dict[str, Space] = {a: self.call("action_space", a) for a in agents}
        except Exception:
            self.close()
            raise

    def call(self, name: str, *arguments: Any) -> Any:
        """The attribute of that name, or what it returns if it is a method. What it raises is raised here."""
        try:
            self._line.send((name, arguments))
            answer, self.agents = self._line.recv()
        except (EOFError, OSError) as error:
            self._process.join(10.0)
            raise Gone(
                f"the environment's own process is gone (exit code {self._process.exitcode}): make a new one"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        return self.call("reset", seed, options)

    def step(
        self, actions: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        return self.call("step", actions)

    def observation_space(self, agent: str) -> Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        return self.action_spaces[agent]

    def close(self) -> None:
        self._line.close()  # tells it to go
        self._process.join()


def _serve(make: Callable[[], ParallelEnv], line: Connection) -> None:
    env: ParallelEnv | None = None
    while True:
        try:
            name, arguments = line.recv()
        except EOFError:
            break
        try:
            env = make() if env is None else env
            found = getattr(env, name)
            answer = found(*arguments) if callable(found) else found
        except Exception as error:
            own = type(error).__module__ == "builtins"  # others need not survive the way
            answer = error if own else RuntimeError(f"{type(error).__name__}: {error}")
        line.send((answer, env.agents if env is not None else []))
    if env is not None:
        env.close()
