"""The paper's format of an episode: every step has its own prompt, with a window on the last steps.

The parts are those of the released configuration, in our wording: the task, the number of steps taken, the last of them, the
current observation and the possible actions, and for free answers the required form.
"""

from collections.abc import Sequence


def prompt(
    task: str, past: Sequence[tuple[str, str]], seen: str, window: int, *, options: str = "", demand: str = ""
) -> str:
    """`past` holds the observations and actions of all steps so far; the prompt shows the last `window` of them.

    If `seen`, the current observation, contains the task, as it does at the start, the task is not repeated: the first
    prompt has neither task nor past. `options` lists the possible actions, `demand` says how to answer.
    """
    lines = [] if task in seen else [f"Your task: {task}"]
    if past:
        first = max(0, len(past) - window)
        recent = list(enumerate(past, 1))[first:]
        lines.append(f"Steps taken so far: {len(past)}.{' The last of them:' if recent else ''}")
        lines += [
            f"At step {number} you saw: {observation}\nand your action was: {action}"
            for number, (observation, action) in recent
        ]
        lines.append(f"Now, at step {len(past) + 1}, you see:")
    return "\n".join([*lines, seen, *filter(None, (options, demand))])
