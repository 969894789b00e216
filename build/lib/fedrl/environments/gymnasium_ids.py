"""Gymnasium's environments by their ids: how they are made, and what an id stands for."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from fedrl.environments.errors import EnvironmentFailed


def maker(name: str) -> Callable[[int], gym.Env]:
    """What makes Gymnasium's environment `name`, the same for every client."""

    def make_env(client_id: int) -> gym.Env:
        try:
            return gym.make(name)
        except gym.error.Error as error:
            raise EnvironmentFailed(
                f'Gymnasium cannot make "{name}": {error}; gymnasium.registry lists the ids, and a function '
                "make_env(client_id) may make any other environment"
            ) from error

    return make_env


def settings(name: str, env: gym.Env) -> dict[str, Any]:
    """What the id `name` stands for, which is for whoever registers it to say, and so a part of what a run is."""
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
