"""The action in a free answer: the text between the first action tags, after some thinking in think tags."""

import re

ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
DEMAND = (
    "Think first, between <think> and </think>; then give one action that you can take, between <action> and </action>."
)
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def action_in(text: str) -> tuple[str, bool]:
    """The action, lower-cased, and whether the answer is well-formed; if it is not, its last 30 characters.

    Only the form counts: a well-formed action that is not admissible is tried and does nothing, without penalty.
    """
    lower = text.lower()
    match = ACTION.search(lower)
    if not match:
        return lower[-30:], False
    has_thought = "<think>" in lower and "</think>" in lower
    return match[1].strip(), has_thought and not CHINESE.search(text)
