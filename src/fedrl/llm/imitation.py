"""Imitation of public expert episodes: the warm start, an addition to the paper; its gain is reported separately."""

import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedrl.llm.context import PromptFormatter
from fedrl.llm.decoding import Answer, Decision
from fedrl.llm.episodes import Acting, Episode, MakeEnv, RunningEpisode
from fedrl.llm.likelihood import Sample, likelihood
from fedrl.llm.models.model import Model, Theta
from fedrl.llm.optimization import adamw, descend, minibatches
from fedrl.llm.trie import Trie


def demonstration_sample(formatter: PromptFormatter, make: MakeEnv, task: int, commands: Sequence[str]) -> Sample:
    """The transcript of an episode in which `commands` are given, and the decisions that led to them."""
    (sample,) = demonstration(formatter, make, task, commands).samples()
    return sample


def demonstration(
    formatter: PromptFormatter, make: MakeEnv, task: int, commands: Sequence[str], window: int | None = None
) -> Episode:
    """An episode in which `commands` are given, formatted with `window` (see `Acting`); its `samples` are for imitation."""
    if not commands:
        raise ValueError(f"task {task}: a demonstration needs at least one command, got none; exclude this task")
    acting = Acting(longest=sys.maxsize, window=window)
    with make() as env:
        row = RunningEpisode(env, task)
        for command in commands:
            options = row.info["admissible_commands"]
            if command not in options:
                raise ValueError(
                    f"task {task}: the demonstrated command {command!r} is not admissible, but {options}; fix the plan"
                )
            row.next_prompt(formatter, acting)
            answer = _answer(row.commands, options.index(command), len(row.texts[-1]))
            if row.step(answer, command, command, True):
                break
    return row.episode()


def _answer(commands: Sequence[Sequence[int]], command: int, length: int) -> Answer:
    """The answer that is command number `command`, with its decisions, in a text of currently `length` tokens."""
    node, decisions = Trie.of(commands), []
    for position, token in enumerate(commands[command], length):
        if len(node.branches) > 1:
            decisions.append(Decision(position, node.choices, token, 0.0))
        node = node.branches[token]
    return Answer(list(commands[command]), decisions, command)


def imitate(
    model: Model,
    theta: Theta,
    samples: Sequence[Sample],
    *,
    passes: int,
    learning_rate: float,
    shuffle: np.random.Generator,
    language: float = 0.0,
    minibatch: int = 16,
    callback: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> Theta:
    """Raise the mean log-likelihood of the demonstrated decisions in `passes` passes over all samples.

    `language` adds that weight times the log-likelihood of every token, which teaches a new network to read.
    """
    optimizer = adamw(learning_rate)
    state = optimizer.init(theta)
    useful = [sample for sample in samples if sample.decisions]
    steps = passes * -(-len(useful) // minibatch)
    for step, rows in enumerate(minibatches(range(len(useful)), passes, minibatch, shuffle), 1):

        def loss(rows: list[int] = rows) -> torch.Tensor:
            current = likelihood(model, [useful[i] for i in rows], language=bool(language))
            return -current.log_prob.mean() - language * current.language

        theta, state, value = descend(model, theta, state, optimizer, loss)
        callback(step, steps, value)
    return theta
