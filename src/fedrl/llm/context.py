"""How an episode is presented to the model: one growing transcript, each token read once,

    observation -> answer -> observation -> ...

or one prompt per step (`prompt`), with a window on the last steps.

The pieces around observations and answers come from the model's own chat template if it has one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from fedrl.llm.models.pocket import AGENT, END, WORLD
from fedrl.llm.prompt import prompt

USER, SAID, AGAIN = "\u2460", "\u2461", "\u2462"  # placeholders for the first turn, the answer and the second turn
DATE = "26 Jul 2024"  # Llama 3.2's own default


class PromptTemplate(NamedTuple):
    """A transcript is `opening` observation `turn`, then answer `end` `between` observation `turn`, and so on.

    A prompt on its own stands between `opening` and `turn`.
    """

    opening: str
    turn: str
    end: str
    between: str
    shows_commands: bool  # whether the admissible commands are listed with the observation


POCKET = PromptTemplate(WORLD, AGENT, END, WORLD, shows_commands=False)


def of_chat(tokenizer: PreTrainedTokenizerBase, system: str, *, shows_commands: bool = True) -> PromptTemplate:
    """The pieces of the tokenizer's chat template, found by rendering a short conversation with it.

    A template that states the date is given `DATE`, so that an episode has the same tokens on any day. Where observations
    name all admissible commands, as WebShop's pages do, `shows_commands=False` avoids listing them twice.
    """
    if not tokenizer.eos_token:
        raise ValueError("this tokenizer has no end-of-text token to end an agent's turn with; set its eos_token")
    head: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": USER}]
    two_turns = [*head, {"role": "assistant", "content": SAID}, {"role": "user", "content": AGAIN}]
    first, conversation = (
        str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, date_string=DATE))
        for turns in (head, two_turns)
    )
    opening, _, turn = first.partition(USER)
    between = conversation.partition(SAID)[2].partition(AGAIN)[0]
    if conversation != f"{opening}{USER}{turn}{SAID}{between}{AGAIN}{turn}":
        raise ValueError(
            "this model's chat template rewrites earlier turns, so an episode cannot be one growing transcript; "
            "use a model with a plain template, such as SmolLM2 or Qwen2.5"
        )
    eos = tokenizer.eos_token
    if not between.startswith(eos):
        raise ValueError(f"this model's turns end with {between[:20]!r}, expected {eos!r}, its end-of-text token")
    return PromptTemplate(opening, turn, eos, between.removeprefix(eos), shows_commands)


class PromptFormatter(NamedTuple):
    """Texts as tokens."""

    tokenizer: PreTrainedTokenizerBase
    template: PromptTemplate

    def tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def first(self, observation: str, commands: Sequence[str], demand: str = "") -> list[int]:
        """`demand` is the instruction on how to answer, which holds for all turns."""
        return self.tokens(f"{self.template.opening}{self._body(observation, commands, demand)}{self.template.turn}")

    def later(self, observation: str, commands: Sequence[str]) -> list[int]:
        return self.tokens(f"{self.template.between}{self._body(observation, commands)}{self.template.turn}")

    def windowed(
        self,
        task: str,
        past: Sequence[tuple[str, str]],
        observation: str,
        commands: Sequence[str],
        window: int,
        demand: str,
    ) -> list[int]:
        """One step's prompt; see `prompt`."""
        text = prompt(task, past, observation, window, options=self._options(commands), demand=demand)
        return self.tokens(f"{self.template.opening}{text}{self.template.turn}")

    def command(self, text: str) -> list[int]:
        """The tokens of a command and its end mark, one token that no command contains."""
        return [*_encode_command(self, text), self.end]

    @property
    def end(self) -> int:
        token = self.tokenizer.convert_tokens_to_ids(self.template.end)
        assert isinstance(token, int)
        return token

    def _body(self, observation: str, commands: Sequence[str], demand: str = "") -> str:
        return "\n".join([observation, *filter(None, (self._options(commands), demand))])

    def _options(self, commands: Sequence[str]) -> str:
        return f"You can: {', '.join(commands)}" if self.template.shows_commands else ""


@lru_cache(maxsize=1 << 15)
def _encode_command(formatter: PromptFormatter, text: str) -> tuple[int, ...]:
    """Cached, because commands recur."""
    return tuple(formatter.tokens(text))
