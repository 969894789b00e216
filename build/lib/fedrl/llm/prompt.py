"""The paper's way of telling an episode: at every step a prompt of its own, with a window on the last steps.

The parts are those of the released configuration, in words of ours: the task, how many steps were taken, the last of them,
what is seen now and what can be done, and, of an agent that speaks freely, the form its answer is to have.
"""

from collections.abc import Sequence


def prompt(
    task: str, past: Sequence[tuple[str, str]], seen: str, window: int, *, options: str = "", demand: str = ""
) -> str:
    """`past` are all steps so far, what was seen and what was done; the last `window` of them are told.

    Where what is `seen` now says the task itself, as at the beginning, nobody repeats it: the first prompt has neither task
    nor past. `options` say what can be done, `demand` how to answer.
    """
    lines = [] if task in seen else [f"Your task: {task}"]
    if past:
        first = max(0, len(past) - window)
        told = list(enumerate(past, 1))[first:]
        lines.append(f"Steps taken so far: {len(past)}.{' The last of them:' if told else ''}")
        lines += [f"At step {number} you saw: {then}\nand your action was: {done}" for number, (then, done) in told]
        lines.append(f"Now, at step {len(past) + 1}, you see:")
    return "\n".join([*lines, seen, *filter(None, (options, demand))])
