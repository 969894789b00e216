"""The action in what an agent says freely: the text between the first action tags, after some thinking in think tags."""

import re

ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
DEMAND = (
    "Think first, between <think> and </think>; then give one action that you can take, between <action> and </action>."
)
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def action_in(text: str) -> tuple[str, bool]:
    """The action, lower-cased, and whether the answer is well-formed; of one that is not, its last 30 characters.

    Only the form is judged: a well-formed action that is not admissible is tried and does nothing, at no penalty.
    """
    lowered = text.lower()
    found = ACTION.search(lowered)
    if not found:
        return lowered[-30:], False
    thought = "<think>" in lowered and "</think>" in lowered
    return found[1].strip(), thought and not CHINESE.search(text)
