"""Episodes of language agents, for groups of tasks at once; a task's first prompt is read only once per group.

The model reads an episode as one growing transcript, or with a window, as in fedagent, one prompt per step.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np

from fedrl.arguments import at_least, checked_class
from fedrl.llm.context import PromptFormatter
from fedrl.llm.decoding import Answer, Decision, choose_commands, generate_answers
from fedrl.llm.likelihood import Sample
from fedrl.llm.models.model import Model
from fedrl.llm.parsing import DEMAND, action_in
from fedrl.llm.reader import Reader, read_prompts

MakeEnv = Callable[[], gymnasium.Env[str, str]]
Noise = Callable[[int], np.ndarray]  # (step) -> [episodes, n] uniform numbers that decide that step's tokens

MOST_DECISIONS = 64  # per answer for which noise is drawn if agents choose among commands


@checked_class
@dataclass(frozen=True)
class Acting:
    """How agents act."""

    decode: str = "commands"  # "commands": one of the admissible ones; "free": any text, with the action in tags
    temperature: float = 1.0
    most_tokens: int = 64  # of one free answer
    longest: int = 4000  # tokens of a text; the episode is truncated where the next answer could make it longer
    window: int | None = None  # past steps in each prompt (paper: 2); None: all of them, in one transcript

    def __post_init__(self) -> None:
        if self.decode not in ("commands", "free"):
            raise ValueError(f'decode is "commands" or "free", got {self.decode!r}')
        at_least(0, "0 takes the likeliest", temperature=self.temperature)
        at_least(1, most_tokens=self.most_tokens, longest=self.longest)
        if self.window is not None and self.window < 0:
            raise ValueError(
                f"window is a number of past steps, 0 or more, or None for a transcript, got {self.window}"
            )


class Turn(NamedTuple):
    """One step of an episode."""

    observation: str
    answer: str
    action: str
    valid: bool  # well-formed; an admissible command always is
    reward: float
    decisions: tuple[Decision, ...]


class Episode(NamedTuple):
    task: int
    task_type: str
    texts: list[list[int]]  # tokens of the whole transcript, or with a window one text per turn
    turns: list[Turn]
    score: float
    won: bool

    @property
    def tokens(self) -> list[int]:
        """All texts, one after the other."""
        return [token for text in self.texts for token in text]

    @property
    def decisions(self) -> list[tuple[int, Decision]]:
        """Each with the number of its turn; positions count within that turn's text."""
        return [(t, decision) for t, turn in enumerate(self.turns) for decision in turn.decisions]

    def samples(self) -> list[Sample]:
        """Each text with the decisions in it, to learn from. A single turn is a single text, with or without a window."""
        decisions = self.decisions
        own = (
            [decisions]
            if len(self.texts) == 1
            else [[x for x in decisions if x[0] == t] for t in range(len(self.turns))]
        )
        return [Sample(text, [d for _, d in x], [t for t, _ in x]) for text, x in zip(self.texts, own, strict=True)]


class RunningEpisode:
    """An episode in progress."""

    def __init__(self, env: gymnasium.Env[str, str], task: int) -> None:
        self.env, self.task = env, task
        self.observation, self.info = env.reset(seed=task, options={"task": task})
        self.goal = str(self.info.get("goal", self.observation))
        self.texts: list[list[int]] = []
        self.turns: list[Turn] = []
        self.commands: list[list[int]] = []  # the admissible ones, as tokens

    def next_prompt(self, formatter: PromptFormatter, acting: Acting) -> list[int]:
        """The tokens to read now; none if the text with the answer would be too long, which truncates the episode."""
        prompt = self._prompt(formatter, acting)
        room = acting.most_tokens + 1
        if acting.decode == "commands":
            self.commands = [formatter.command(text) for text in self.info["admissible_commands"]]
            room = max(map(len, self.commands), default=0)
        text = self.texts[-1] if self.turns and acting.window is None else []
        if len(text) + len(prompt) + room > acting.longest:
            return []
        if not text:
            self.texts.append(text)
        text.extend(prompt)
        return prompt

    def _prompt(self, formatter: PromptFormatter, acting: Acting) -> list[int]:
        options = self.info["admissible_commands"]
        demand = DEMAND if acting.decode == "free" else ""
        if acting.window is not None:
            past = [(turn.observation, turn.action) for turn in self.turns]
            return formatter.windowed(self.goal, past, self.observation, options, acting.window, demand)
        if self.turns:
            return formatter.later(self.observation, options)
        return formatter.first(self.observation, options, demand)

    def step(self, answer: Answer, text: str, action: str, valid: bool) -> bool:
        """Take a step; returns whether the episode is over."""
        observation = self.observation
        self.texts[-1].extend(answer.tokens)
        self.observation, reward, terminated, truncated, self.info = self.env.step(action)
        self.turns.append(Turn(observation, text, action, valid, float(reward), tuple(answer.decisions)))
        return bool(terminated or truncated)

    def episode(self) -> Episode:
        info = self.info
        return Episode(
            self.task, str(info["task_type"]), self.texts, self.turns, float(info["score"]), bool(info["won"])
        )


def draw_noise(rng: np.random.Generator, episodes: int, acting: Acting = Acting()) -> Noise:
    """Noise drawn step by step, as wide as an answer may need."""
    width = acting.most_tokens if acting.decode == "free" else MOST_DECISIONS
    return lambda step: rng.random((episodes, width))


def play(
    model: Model,
    formatter: PromptFormatter,
    make: MakeEnv,
    tasks: Sequence[int],
    group: int,
    noise: Noise,
    acting: Acting = Acting(),
) -> list[Episode]:
    """`group` episodes of each of `tasks`, played in parallel; in the result those of one task follow each other."""
    reader = Reader(model.net)
    with ExitStack() as open_envs:
        rows = [RunningEpisode(open_envs.enter_context(make()), task) for task in tasks for _ in range(group)]
        reader.read(_opening_prompts(rows, group, formatter, acting))
        reader.repeat(group)
        running, step = list(range(len(rows))), 0
        while running:
            ended = _take_turns(reader, formatter, [rows[i] for i in running], noise(step)[running], acting)
            prompts = [
                [] if done else rows[i].next_prompt(formatter, acting) for i, done in zip(running, ended, strict=True)
            ]
            unfinished = [place for place, tokens in enumerate(prompts) if tokens]
            if unfinished and acting.window is not None:
                groups = [running[place] // group for place in unfinished]
                reader = read_prompts(model.net, [prompts[place] for place in unfinished], groups)
            elif unfinished:
                if len(unfinished) < len(running):
                    reader.keep(unfinished)
                reader.read([prompts[place] for place in unfinished])
            running, step = [running[place] for place in unfinished], step + 1
    return [row.episode() for row in rows]


def _opening_prompts(
    rows: list[RunningEpisode], group: int, formatter: PromptFormatter, acting: Acting
) -> list[list[int]]:
    """The first prompt of each task; all episodes of its group must have the same."""
    openings = [row.next_prompt(formatter, acting) for row in rows]
    for place, row in enumerate(rows):
        if not openings[place]:
            raise ValueError(
                f"the first prompt of task {row.task} is longer than longest={acting.longest} tokens allow; raise longest"
            )
        if openings[place] != openings[place - place % group]:
            raise ValueError(
                f"task {row.task} has two different first observations, one of them {row.observation[:60]!r}; an "
                'environment must start the same way whenever it is reset with seed=i and options={"task": i}'
            )
    return openings[::group]


def _take_turns(
    reader: Reader, formatter: PromptFormatter, rows: list[RunningEpisode], noise: np.ndarray, acting: Acting
) -> list[bool]:
    """All agents answer and their environments take a step; returns which episodes are over."""
    at = [len(row.texts[-1]) for row in rows]
    if acting.decode == "commands":
        answers = choose_commands(reader, [row.commands for row in rows], at, noise, acting.temperature)
        texts = [row.info["admissible_commands"][answer.command] for row, answer in zip(rows, answers, strict=True)]
        actions: list[tuple[str, bool]] = [(text, True) for text in texts]
    else:
        answers = generate_answers(reader, formatter.end, at, noise, acting.temperature, acting.most_tokens)
        texts = [formatter.tokenizer.decode(answer.tokens, skip_special_tokens=True) for answer in answers]
        actions = [action_in(text) for text in texts]
    return [
        row.step(answer, text, action, valid)
        for row, answer, text, (action, valid) in zip(rows, answers, texts, actions, strict=True)
    ]
