"""Imitation of public expert episodes: the warm start, an addition to the paper, its gain reported apart from RL's."""

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
    (only,) = demonstration(formatter, make, task, commands).samples()
    return only


def demonstration(
    formatter: PromptFormatter, make: MakeEnv, task: int, commands: Sequence[str], window: int | None = None
) -> Episode:
    """An episode in which `commands` are given, told as `window` says (see `Acting`); its `samples` are to be imitated."""
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
            said = _answer(row.commands, options.index(command), len(row.texts[-1]))
            if row.step(said, command, command, True):
                break
    return row.episode()


def _answer(known: Sequence[Sequence[int]], command: int, at: int) -> Answer:
    """That command out of those known, and the decisions that lead to it, in a text that is `at` tokens long by now."""
    node, decisions = Trie.of(known), []
    for position, token in enumerate(known[command], at):
        if len(node.branches) > 1:
            decisions.append(Decision(position, node.choices, token, 0.0))
        node = node.branches[token]
    return Answer(list(known[command]), decisions, command)


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
    """Make the demonstrated decisions likelier: their mean log-likelihood is climbed, `passes` times over all samples.

    `language` adds that weight times the log-likelihood of every token, which teaches a new network to read.
    """
    optimizer = adamw(learning_rate)
    state = optimizer.init(theta)
    useful = [sample for sample in samples if sample.decisions]
    steps = passes * -(-len(useful) // minibatch)
    for step, rows in enumerate(minibatches(range(len(useful)), passes, minibatch, shuffle), 1):

        def loss(rows: list[int] = rows) -> torch.Tensor:
            now = likelihood(model, [useful[i] for i in rows], language=bool(language))
            return -now.log_prob.mean() - language * now.language

        theta, state, value = descend(model, theta, state, optimizer, loss)
        callback(step, steps, value)
    return theta
