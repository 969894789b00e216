"""Episodes of a language agent: groups of them, of several tasks at once, each task's opening read once for its group.

An episode is told as one growing transcript, or, with a window, as the paper does: of every step a text of its own.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np

from fedrl.arguments import at_least, checked_class
from fedrl.llm.context import PromptFormatter
from fedrl.llm.decoding import Decision, Said, among, freely
from fedrl.llm.likelihood import Sample
from fedrl.llm.models.model import Model
from fedrl.llm.parsing import DEMAND, action_in
from fedrl.llm.reader import Reader, reading

MakeEnv = Callable[[], gymnasium.Env]
Noise = Callable[[int], np.ndarray]  # (step) -> [episodes, n] uniform numbers with which that step's tokens are decided

MOST_DECISIONS = 64  # for which noise is drawn where agents choose among commands


@checked_class
@dataclass(frozen=True)
class Acting:
    """How agents act."""

    decode: str = "commands"  # "commands": one of the admissible ones; "free": any words, the action in its tags
    temperature: float = 1.0
    most_tokens: int = 64  # of one free answer
    longest: int = 4000  # tokens of a text; where it could grow longer with the next answer, the episode is cut
    window: int | None = None  # past steps told at each step (paper: 2); None: all of them, in one transcript

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

    seen: str
    said: str
    action: str
    valid: bool  # well-formed; an admissible command always is
    reward: float
    decisions: tuple[Decision, ...]


class Episode(NamedTuple):
    task: int
    task_type: str
    texts: list[list[int]]  # as tokens: the whole transcript, or with a window a text of each turn
    turns: list[Turn]
    score: float
    won: bool

    @property
    def tokens(self) -> list[int]:
        """All texts, one after the other."""
        return [token for text in self.texts for token in text]

    @property
    def decisions(self) -> list[tuple[int, Decision]]:
        """Each with the number of its turn; its position is in the text it was made in."""
        return [(t, decision) for t, turn in enumerate(self.turns) for decision in turn.decisions]

    def samples(self) -> list[Sample]:
        """What is learnt from: each text, with the decisions in it. A single turn is a single text, however it is told."""
        made = self.decisions
        own = [made] if len(self.texts) == 1 else [[x for x in made if x[0] == t] for t in range(len(self.turns))]
        return [Sample(text, [d for _, d in x], [t for t, _ in x]) for text, x in zip(self.texts, own, strict=True)]


class Row:
    """An episode under way."""

    def __init__(self, env: gymnasium.Env, task: int) -> None:
        self.env, self.task = env, task
        self.seen, self.info = env.reset(seed=task, options={"task": task})
        self.goal = str(self.info.get("goal", self.seen))
        self.texts: list[list[int]] = []
        self.turns: list[Turn] = []
        self.known: list[list[int]] = []  # the admissible commands

    def told(self, teller: PromptFormatter, acting: Acting) -> list[int]:
        """What is read now, as tokens; none where with an answer the text would be too long, which cuts the episode."""
        told = self._next(teller, acting)
        room = acting.most_tokens + 1
        if acting.decode == "commands":
            self.known = [teller.command(text) for text in self.info["admissible_commands"]]
            room = max(map(len, self.known), default=0)
        text = self.texts[-1] if self.turns and acting.window is None else []
        if len(text) + len(told) + room > acting.longest:
            return []
        if not text:
            self.texts.append(text)
        text.extend(told)
        return told

    def _next(self, teller: PromptFormatter, acting: Acting) -> list[int]:
        options = self.info["admissible_commands"]
        demand = DEMAND if acting.decode == "free" else ""
        if acting.window is None:
            return teller.later(self.seen, options) if self.turns else teller.first(self.seen, options, demand)
        past = [(turn.seen, turn.action) for turn in self.turns]
        return teller.afresh(self.goal, past, self.seen, options, acting.window, demand)

    def step(self, said: Said, text: str, action: str, valid: bool) -> bool:
        """Whether the episode is over."""
        before = self.seen
        self.texts[-1].extend(said.tokens)
        self.seen, reward, done, cut, self.info = self.env.step(action)
        self.turns.append(Turn(before, text, action, valid, float(reward), tuple(said.decisions)))
        return bool(done or cut)

    def episode(self) -> Episode:
        info = self.info
        return Episode(
            self.task, str(info["task_type"]), self.texts, self.turns, float(info["score"]), bool(info["won"])
        )


def noise_of(random: np.random.Generator, episodes: int, acting: Acting = Acting()) -> Noise:
    """Drawn for one step after the other; as wide as an answer may need."""
    width = acting.most_tokens if acting.decode == "free" else MOST_DECISIONS
    return lambda step: random.random((episodes, width))


def play(
    model: Model,
    teller: PromptFormatter,
    make: MakeEnv,
    tasks: Sequence[int],
    group: int,
    noise: Noise,
    acting: Acting = Acting(),
) -> list[Episode]:
    """`group` episodes of each of `tasks`, side by side: those of one task follow each other in the answer."""
    reader = Reader(model.net)
    with ExitStack() as open_envs:
        rows = [Row(open_envs.enter_context(make()), task) for task in tasks for _ in range(group)]
        reader.read(_openings(rows, group, teller, acting))
        reader.repeat(group)
        going, step = list(range(len(rows))), 0
        while going:
            over = _turn(reader, teller, [rows[i] for i in going], noise(step)[going], acting)
            told = [[] if done else rows[i].told(teller, acting) for i, done in zip(going, over, strict=True)]
            left = [place for place, tokens in enumerate(told) if tokens]
            if left and acting.window is not None:
                reader = reading(model.net, [told[place] for place in left], [going[place] // group for place in left])
            elif left:
                if len(left) < len(going):
                    reader.keep(left)
                reader.read([told[place] for place in left])
            going, step = [going[place] for place in left], step + 1
    return [row.episode() for row in rows]


def _openings(rows: list[Row], group: int, teller: PromptFormatter, acting: Acting) -> list[list[int]]:
    """What each task begins with, as tokens; all episodes of its group must begin so."""
    openings = [row.told(teller, acting) for row in rows]
    for place, row in enumerate(rows):
        if not openings[place]:
            raise ValueError(f"task {row.task} opens with more than longest={acting.longest} tokens allow; raise it")
        if openings[place] != openings[place - place % group]:
            raise ValueError(
                f"task {row.task} opened in two ways, {row.seen[:60]!r} one of them; an environment must begin alike "
                'whenever it is reset with seed=i and options={"task": i}'
            )
    return openings[::group]


def _turn(reader: Reader, teller: PromptFormatter, rows: list[Row], luck: np.ndarray, acting: Acting) -> list[bool]:
    """All agents say something and their worlds answer; which episodes are over."""
    at = [len(row.texts[-1]) for row in rows]
    if acting.decode == "commands":
        said = among(reader, [row.known for row in rows], at, luck, acting.temperature)
        texts = [row.info["admissible_commands"][answer.command] for row, answer in zip(rows, said, strict=True)]
        actions: list[tuple[str, bool]] = [(text, True) for text in texts]
    else:
        said = freely(reader, teller.end, at, luck, acting.temperature, acting.most_tokens)
        texts = [teller.tokenizer.decode(answer.tokens, skip_special_tokens=True) for answer in said]
        actions = [action_in(text) for text in texts]
    return [
        row.step(answer, text, action, valid)
        for row, answer, text, (action, valid) in zip(rows, said, texts, actions, strict=True)
    ]
