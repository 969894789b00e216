"""Imitation of public expert episodes: the warm start, an addition to the paper, its gain reported apart from RL's."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedrl.agents.context import Teller
from fedrl.agents.decoding import Decision
from fedrl.agents.descent import adamw, descend, minibatches
from fedrl.agents.episodes import MakeEnv
from fedrl.agents.likelihood import Sample, likelihood
from fedrl.agents.models.model import Model, Theta
from fedrl.agents.trie import Trie


def demonstrated(teller: Teller, make: MakeEnv, task: int, commands: Sequence[str]) -> Sample:
    """The transcript of an episode in which `commands` are given, and the decisions that led to them."""
    tokens: list[int] = []
    decisions: list[Decision] = []
    with make() as env:
        seen, info = env.reset(seed=task, options={"task": task})
        for command in commands:
            options = info["admissible_commands"]
            if command not in options:
                raise ValueError(
                    f"task {task}: the demonstrated command {command!r} is not admissible, but {options}; mend the plan"
                )
            tokens += (teller.later if tokens else teller.first)(seen, options)
            node = Trie.of(teller.command(text) for text in options)
            for token in teller.command(command):
                if len(node.branches) > 1:
                    decisions.append(Decision(len(tokens), node.choices, token, 0.0))
                tokens.append(token)
                node = node.branches[token]
            seen, _, done, cut, info = env.step(command)
            if done or cut:
                break
    return Sample(tokens, decisions)


def imitate(
    model: Model,
    theta: Theta,
    samples: Sequence[Sample],
    *,
    passes: int,
    rate: float,
    shuffle: np.random.Generator,
    language: float = 0.0,
    minibatch: int = 16,
    watch: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> Theta:
    """Make the demonstrated decisions likelier: their mean log-likelihood is climbed, `passes` times over all samples.

    `language` adds that weight times the log-likelihood of every token, which teaches a new network to read.
    """
    optimiser = adamw(rate)
    state = optimiser.init(theta)
    useful = [sample for sample in samples if sample.decisions]
    steps = passes * -(-len(useful) // minibatch)
    for step, rows in enumerate(minibatches(len(useful), passes, minibatch, shuffle), 1):

        def loss(rows=rows) -> torch.Tensor:
            now = likelihood(model, [useful[i] for i in rows], language=bool(language))
            return -now.log_prob.mean() - language * now.language

        theta, state, value = descend(model, theta, state, optimiser, loss)
        watch(step, steps, value)
    return theta
