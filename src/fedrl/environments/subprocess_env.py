"""A PettingZoo environment in a process of its own, so that several SUMO simulations can run at once despite libsumo.

Run as a script with the number of a socket, this file is that process. It ends when the process that started it ends.
"""

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import cloudpickle
import numpy as np
from gymnasium.spaces import Space
from pettingzoo import ParallelEnv

from fedrl.errors import FedRLError

PATIENCE = 10.0  # seconds for an environment to finish its step and close, once the connection is closed
DEADLINE = 600.0  # seconds for a call
STARTING = 120.0  # seconds for the process to start and create its environment, even if the deadline is shorter


Infos = dict[str, dict[str, Any]]
Reset = tuple[dict[str, np.ndarray], Infos]
Step = tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], Infos]


class EnvProcessDied(FedRLError, RuntimeError):
    """The environment's process has died (killed, or out of memory). Its episode is lost, but can be replayed in another."""


class EnvProcessTimeout(EnvProcessDied):
    """The environment missed the deadline, so its process was killed."""


class SubprocessEnv(ParallelEnv[str, np.ndarray, np.ndarray]):  # type: ignore[misc]  # PettingZoo is untyped
    """The environment that `make()` returns, in another process: `SubprocessEnv(FigureEight)`,
    `SubprocessEnv(partial(Merge, warm_up=0))`, or with a function of your script.

    `call` reaches its other methods and attributes. `ask` and `answer` are the two halves of a call, so that several
    environments can work at the same time. A call that takes more than `deadline` seconds raises `EnvProcessTimeout`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "is_parallelizable": True}

    def __init__(self, make: Callable[[], ParallelEnv[str, Any, Any]], deadline: float = DEADLINE) -> None:
        self._deadline = max(deadline, STARTING)
        self._process, self._line = _start(cloudpickle.dumps(make))
        self._end = weakref.finalize(self, _end, self._process, self._line)
        self.agents: list[str] = []
        try:
            self.possible_agents: list[str] = self.call("possible_agents")
            agents = self.possible_agents
            self.observation_spaces: dict[str, Space[Any]] = {a: self.call("observation_space", a) for a in agents}
            self.action_spaces: dict[str, Space[Any]] = {a: self.call("action_space", a) for a in agents}
            self._deadline = deadline
        except Exception:
            self.close()
            raise

    def call(self, name: str | Callable[..., Any], *arguments: Any) -> Any:
        """The attribute of that name, or its result if it is a method; of a function, its result for the environment there.

        Exceptions are raised here.
        """
        self.ask(name, *arguments)
        return self.answer()

    def ask(self, name: str | Callable[..., Any], *arguments: Any) -> None:
        """Start a call; every `ask` needs its `answer`."""
        with suppress(OSError):  # the process died: `answer` will report it
            self._line.send_bytes(cloudpickle.dumps((name, arguments)))

    def answer(self) -> Any:
        """Wait for the result of the last `ask`."""
        try:
            if not self._line.poll(self._deadline):
                self._process.kill()  # it may be stopped or hang, and then would not notice the closed connection
                raise EnvProcessTimeout(
                    f"no result within the deadline of {self._deadline:g} s, so its process was killed; make a new one"
                )
            reply = self._line.recv_bytes()
        except (EOFError, OSError) as error:
            self.close()
            raise EnvProcessDied(
                f"the environment's process has died (exit code {self._process.returncode}); make a new one"
            ) from error
        except BaseException:
            self.close()  # interrupted half-way through a reply, so the next one could not be read
            raise
        result, self.agents = pickle.loads(reply)
        if isinstance(result, Exception):
            raise result
        return result

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        result: Reset = self.call("reset", seed, options)
        return result

    def step(self, actions: dict[str, np.ndarray]) -> Step:
        result: Step = self.call("step", actions)
        return result

    def observation_space(self, agent: str) -> Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self.action_spaces[agent]

    def close(self) -> None:
        self._end()


def _start(make: bytes) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a new interpreter. `multiprocessing` would import the user's script again, which may lack a main guard."""
    if os.name != "posix":
        raise ValueError(f"an environment in a process of its own needs Linux or macOS, this is {sys.platform}")
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedrl.environments.subprocess_env", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,  # keep what the environment prints out of this process's standard output
            env=os.environ | {"PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path)},
            process_group=0,  # so that Ctrl-C reaches the main process only
        )
    line = Connection(ours.detach())
    with suppress(OSError):
        line.send_bytes(make)
    return process, line


def _end(process: subprocess.Popen[bytes], line: Connection) -> None:
    line.close()  # tells it to stop
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve(descriptor: int) -> None:
    """Create the environment at the first call, and serve calls until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(descriptor, False)
    line = Connection(descriptor)
    os.register_at_fork(after_in_child=line.close)  # a simulator's own child process must not keep it open
    threading.Thread(target=_watch, args=(descriptor,), daemon=True).start()
    env: ParallelEnv[str, Any, Any] | None = None
    with suppress(EOFError, OSError):
        make = line.recv_bytes()
        while True:
            request = line.recv_bytes()
            try:
                name, arguments = pickle.loads(request)
                env = pickle.loads(make)() if env is None else env
                attribute = partial(name, env) if callable(name) else getattr(env, name)
                result = attribute(*arguments) if callable(attribute) else attribute
                reply = cloudpickle.dumps((result, getattr(env, "agents", [])))  # some have them from the first reset
            except Exception as error:
                builtin = type(error).__module__ == "builtins"  # other exceptions may not survive pickling
                result = error if builtin else RuntimeError(f"{type(error).__name__}: {error}")
                reply = cloudpickle.dumps((result, getattr(env, "agents", [])))
            line.send_bytes(reply)
    if isinstance(env, ParallelEnv):
        env.close()


def _watch(descriptor: int) -> None:
    """Wait for the other end to hang up, then end this process even if a step or `close` does not return."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    time.sleep(PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
