"""Gymnasium's environments by id: how to make them, and how the id is registered."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from fedrl.environments.errors import EnvironmentFailed


def maker(name: str) -> Callable[[int], gym.Env[Any, Any]]:
    """`make_env` for Gymnasium's environment `name`, the same for every client."""

    def make_env(client_id: int) -> gym.Env[Any, Any]:
        try:
            return gym.make(name)
        except gym.error.Error as error:
            raise EnvironmentFailed(
                f'Gymnasium cannot make "{name}": {error}; gymnasium.registry lists the ids; for any other '
                "environment pass a function make_env(client_id)"
            ) from error

    return make_env


def settings(name: str, env: gym.Env[Any, Any]) -> dict[str, Any]:
    """The registration of the id `name`: part of a run's identity, because others may register it differently."""
    spec = env.unwrapped.spec
    if spec is None:
        return {"id": name}
    entry = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return {
        "id": name,
        "entry_point": entry,
        "kwargs": spec.kwargs or None,
        "wrappers": spec.additional_wrappers or None,
    }
