"""How the parameters of a language model act: by whole episodes, not one observation at a time."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedrl.llm.episodes import Acting, Episode, draw_noise, play
from fedrl.llm.models.loading import Spec, open_model
from fedrl.llm.models.model import Theta, load_theta
from fedrl.llm.tasks import TextEnvironment
from fedrl.types import InitParameters

ABOUT = {"kind": "language-model"}


class PlayEpisodes(Protocol):
    """`group` episodes of each of `tasks`; those of one task follow each other."""

    def __call__(
        self,
        theta: Theta,
        environment: TextEnvironment,
        tasks: Sequence[int],
        group: int,
        rng: np.random.Generator,
        acting: Acting,
        /,
    ) -> list[Episode]: ...


class LanguagePolicy(NamedTuple):
    """A policy of language agents; all others are a `Policy`, which acts step by step."""

    init: InitParameters
    play: PlayEpisodes
    about: Mapping[str, Any] | None = ABOUT


def language_policy(spec: Spec) -> LanguagePolicy:
    """The model of `spec`, opened in the process that plays."""

    def play_episodes(
        theta: Theta,
        environment: TextEnvironment,
        tasks: Sequence[int],
        group: int,
        rng: np.random.Generator,
        acting: Acting,
        /,
    ) -> list[Episode]:
        model = open_model(spec)
        load_theta(model, theta)
        noise = draw_noise(rng, len(tasks) * group, acting)
        return play(model, spec.formatter(), environment.make, tasks, group, noise, acting)

    return LanguagePolicy(spec.init, play_episodes)
