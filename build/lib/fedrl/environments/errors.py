"""What is said when a client's world is at fault: which client, what came, what to do about it."""

from typing import Any

import jax
import numpy as np


class EnvironmentFailed(ValueError):
    """A client's environment could not be made, stepped or believed."""


class TrainingDiverged(EnvironmentFailed):
    """A policy whose parameters are no longer numbers was asked to act."""


def check_parameters(client_id: int, theta: Any) -> None:
    """Refuse to act with parameters that are not finite."""
    if not all(np.isfinite(x).all() for x in jax.tree.leaves(theta)):
        raise TrainingDiverged(
            f"client {client_id}: the policy's parameters are no longer finite; take smaller steps or clip the gradient"
        )


def check_finite(client_id: int, observations: np.ndarray, rewards: np.ndarray | None = None) -> None:
    """Refuse NaN and infinite numbers; `rewards=None` where there are none yet, after a reset."""
    for what, values in (("observation", observations), ("reward", rewards)):
        if values is None or np.isfinite(values).all():
            continue
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        copy = int(np.argmin(finite))
        raise EnvironmentFailed(
            f"client {client_id}, copy {copy}: {what} {np.array2string(values[copy], precision=4, threshold=8)} "
            "is not finite; mend the environment, bound its actions or leave the client out"
        )
