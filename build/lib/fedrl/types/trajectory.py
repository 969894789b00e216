"""What a roll-out returns."""

from typing import Any, NamedTuple


class Trajectory(NamedTuple):
    """A batch of episodes, [B, T] arrays (NumPy's on the host); where `alive` is False nothing happened, reward zero."""

    obs: Any
    choice: Any
    reward: Any
    alive: Any
    terminated: Any  # the task was over after this step
    truncated: Any  # time was up, or the roll-out stops here: what follows is worth something but was not seen
    after: Any  # the observation after this step, before any new episode began
