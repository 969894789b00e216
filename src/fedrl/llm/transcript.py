"""One episode of a language agent for people to read: played, and written as a self-contained page."""

import unicodedata
from collections.abc import Mapping
from html import escape

import numpy as np

from fedrl.llm import evaluation
from fedrl.llm.episodes import Acting, Episode, Turn
from fedrl.llm.evaluation import HELD_OUT_ACTING
from fedrl.llm.models.loading import Spec
from fedrl.llm.models.model import Theta
from fedrl.llm.randomness import generator_at
from fedrl.llm.tasks import TextEnvironment

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --quiet: #57606a; --page: #f3f5f7; --agent: #0550ae;
  --won: #116329; --lost: #a40e26; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --quiet: #9198a1; --page: #171c23;
  --agent: #79c0ff; --won: #7ee787; --lost: #ffa198; } }
body { margin: 0 auto; max-width: 46rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0.5rem 0; }
h2 { font-size: 1rem; margin: 1.5rem 0 0.4rem; color: var(--quiet); font-weight: normal; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 0.4rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; white-space: pre-wrap; }
pre { margin: 0; padding: 0.7rem; border-radius: 0.4rem; background: var(--page); white-space: pre-wrap;
  font: 0.9rem/1.45 ui-monospace, monospace; }
section dd { color: var(--agent); }
.won { color: var(--won); }
.lost { color: var(--lost); }
"""


def play_task(
    spec: Spec,
    theta: Theta,
    environment: TextEnvironment,
    task: int,
    *,
    seed: int = 0,
    acting: Acting = HELD_OUT_ACTING,
) -> Episode:
    """One episode of `task` with the parameters `theta`; the draws depend on `seed` and on the task's number only."""
    (episode,) = evaluation.play_tasks(
        spec, environment, np.array([task]), theta, lambda first: generator_at(seed, "play", task), acting
    )
    return episode


def printable(text: str) -> str:
    """`text` without control characters of terminals and characters that no file can hold; new lines and tabs stay."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in text)


def turn_facts(turn: Turn) -> dict[str, str]:
    """The agent's words, action and reward in a turn, under the names that readers see."""
    action = printable(turn.action) + ("" if turn.valid else "  (not well-formed)")
    words = (
        {"says and does": action} if turn.answer == turn.action else {"says": printable(turn.answer), "does": action}
    )
    return words | {"reward": f"{turn.reward:.3f}"}


def outcome(episode: Episode) -> str:
    steps = len(episode.turns)
    return f"{'won' if episode.won else 'not won'}, score {episode.score:.3f}, {steps} step{'' if steps == 1 else 's'}"


def page(title: str, facts: Mapping[str, str], episode: Episode) -> str:
    """The episode as HTML: no scripts, no external resources, and all texts are escaped."""
    turns = "\n".join(_turn_section(number, turn) for number, turn in enumerate(episode.turns, 1))
    title, ending = _text(title), f'<p class="{"won" if episode.won else "lost"}">{_text(outcome(episode))}</p>'
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
{ending}
{_definition_list(facts)}
{turns}
<h2>end</h2>
{ending}
</body>
</html>
"""


def _turn_section(number: int, turn: Turn) -> str:
    """A turn as HTML. Browsers drop a new line after <pre>; the extra one preserves a new line at the start of the text."""
    observation, facts = _text(turn.observation), _definition_list(turn_facts(turn))
    return f"<section>\n<h2>step {number}</h2>\n<pre>\n{observation}</pre>\n{facts}\n</section>"


def _definition_list(facts: Mapping[str, str]) -> str:
    rows = (f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _text(text: str) -> str:
    return escape(printable(text))
