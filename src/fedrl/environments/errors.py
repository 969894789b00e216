"""Errors of a client's environment: which client, what it returned, what to do about it."""

from typing import Any

import jax
import numpy as np

from fedrl.errors import FedRLError


class EnvironmentFailed(FedRLError, ValueError):
    """A client's environment could not be created or stepped, or returned something invalid."""


class TrainingDiverged(EnvironmentFailed):
    """The policy's parameters are no longer finite."""


def check_parameters(client_id: int, theta: Any) -> None:
    """Refuse to act with parameters that are not finite."""
    if not all(np.isfinite(x).all() for x in jax.tree.leaves(theta)):
        raise TrainingDiverged(
            f"client {client_id}: the policy's parameters are no longer finite; take smaller steps or clip the gradient"
        )


def check_finite(client_id: int, observations: np.ndarray, rewards: np.ndarray | None = None) -> None:
    """Refuse NaN and infinite numbers. Pass `rewards=None` after a reset, when there are none yet."""
    for name, values in (("observation", observations), ("reward", rewards)):
        if values is None or np.isfinite(values).all():
            continue
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        copy = int(np.argmin(finite))
        raise EnvironmentFailed(
            f"client {client_id}, copy {copy}: {name} {np.array2string(values[copy], precision=4, threshold=8)} "
            "is not finite; fix the environment, bound its actions or exclude this client"
        )
