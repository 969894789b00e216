"""A PettingZoo environment in a process of its own: several on SUMO at once, which libsumo alone cannot have.

This file run with a connection is that process. It ends with the one that started it, however that ends.
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
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import cloudpickle
import numpy as np
from gymnasium.spaces import Space
from pettingzoo import ParallelEnv

PATIENCE = 10.0  # seconds an environment has to finish its step and close, once nobody asks any more


DEADLINE = 600.0  # seconds that a call may take
STARTING = 120.0  # seconds that the process may take to start and to make its environment, whatever the deadline


class EnvProcessDied(RuntimeError):
    """The environment's process has died: killed, or out of memory. Its epoch is lost, but can be repeated elsewhere."""


class Late(EnvProcessDied):
    """The environment did not answer by the deadline, so its process was killed."""


class SubprocessEnv(ParallelEnv[str, np.ndarray, np.ndarray]):
    """What `make()` makes, elsewhere: `Apart(FigureEight)`, `Apart(partial(Merge, warm_up=0))`, a function of your script.

    `call` reaches its other methods and attributes. `ask` and `answer` are the two halves of a call, for whoever wants
    several environments to work at the same time. A call that takes more than `deadline` seconds is given up: `Late`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "is_parallelizable": True}

    def __init__(self, make: Callable[[], ParallelEnv], deadline: float = DEADLINE) -> None:
        self._deadline = max(deadline, STARTING)
        self._process, self._line = _start(cloudpickle.dumps(make))
        self._end = weakref.finalize(self, _end, self._process, self._line)
        self.agents: list[str] = []
        try:
            self.possible_agents: list[str] = self.call("possible_agents")
            agents = self.possible_agents
            self.observation_spaces: dict[str, Space] = {a: self.call("observation_space", a) for a in agents}
            self.action_spaces: dict[str, Space] = {a: self.call("action_space", a) for a in agents}
            self._deadline = deadline
        except Exception:
            self.close()
            raise

    def call(self, name: str, *arguments: Any) -> Any:
        """The attribute of that name, or what it returns if it is a method. What it raises is raised here."""
        self.ask(name, *arguments)
        return self.answer()

    def ask(self, name: str, *arguments: Any) -> None:
        """Begin a call; every `ask` wants its `answer`."""
        with suppress(OSError):  # it died: whoever waits for its answer will find out
            self._line.send_bytes(cloudpickle.dumps((name, arguments)))

    def answer(self) -> Any:
        """Wait for what was asked for."""
        try:
            if not self._line.poll(self._deadline):
                self._process.kill()  # it may be stopped, or hang, and not hear that it should close
                raise Late(
                    f"no answer within the deadline of {self._deadline:g} s: its process was killed; make a new one"
                )
            word = self._line.recv_bytes()
        except (EOFError, OSError) as error:
            self.close()
            raise EnvProcessDied(
                f"the environment's own process is gone (exit code {self._process.returncode}): make a new one"
            ) from error
        except BaseException:
            self.close()  # half an answer has been read, and nobody can tell where the next one begins
            raise
        answer, self.agents = pickle.loads(word)
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
        self._end()


def _start(make: bytes) -> tuple[subprocess.Popen, Connection]:
    """A new interpreter rather than `multiprocessing`'s: that would import the user's script again, guard or no guard."""
    if os.name != "posix":
        raise ValueError(f"an environment in a process of its own wants Linux or macOS, this is {sys.platform}")
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedrl.environments.subprocess_env", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what an environment prints is no part of this process's output
            env=os.environ | {"PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path)},
            process_group=0,  # so that Ctrl-C reaches the main process only
        )
    line = Connection(ours.detach())
    with suppress(OSError):
        line.send_bytes(make)
    return process, line


def _end(process: subprocess.Popen, line: Connection) -> None:
    line.close()  # tells it to go
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve(descriptor: int) -> None:
    """Make the environment when it is first asked for something, and answer until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(descriptor, False)
    line = Connection(descriptor)
    os.register_at_fork(after_in_child=line.close)  # a simulator's own child must not keep it open
    threading.Thread(target=_watch, args=(descriptor,), daemon=True).start()
    env: ParallelEnv | None = None
    with suppress(EOFError, OSError):
        make = line.recv_bytes()
        while True:
            word = line.recv_bytes()
            try:
                name, arguments = pickle.loads(word)
                env = pickle.loads(make)() if env is None else env
                found = getattr(env, name)
                answer = found(*arguments) if callable(found) else found
                reply = cloudpickle.dumps((answer, env.agents))
            except Exception as error:
                own = type(error).__module__ == "builtins"  # others need not survive the way
                answer = error if own else RuntimeError(f"{type(error).__name__}: {error}")
                reply = cloudpickle.dumps((answer, getattr(env, "agents", [])))
            line.send_bytes(reply)
    if isinstance(env, ParallelEnv):
        env.close()


def _watch(descriptor: int) -> None:
    """Whether the other end is still there: a step that does not end, or a close, is not waited for."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    time.sleep(PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
