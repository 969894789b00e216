"""The fenced blocks of README and docs, and how a test makes them small.

A block names its language: `python` and `sh` blocks are run, `toml` is parsed, the others are for the eye.
Before a block may stand, as an HTML comment of its own:

    <!-- test: clients=4, rounds=3 -->             these numbers in place of the block's own
    <!-- test: skip, needs a GPU -->               not run
    <!-- test: names, trains a language model -->  Python: compiled; imports, attributes and keywords are looked up
    <!-- test: order, takes an hour -->            commands: options, recipe and settings are looked up

What is not run must say why, and is listed as skipped. Without a comment the numbers of `LARGEST` are the largest that a
Python block keeps, and recipes run with the settings of `TINY`.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LANGUAGES = {"python", "sh", "toml", "json", "text"}
NOT_RUN = ("skip", "names", "order")
LARGEST = {"rounds": 2, "seeds": 2, "steps": 32, "num_envs": 2, "horizon": 20, "batch": 2, "episodes": 2}

# Enough to run, not enough to learn. Other recipes stand in blocks marked `order`, and tests/recipes runs them small.
TINY = {
    "quickstart": {"clients": 4, "rounds": 4, "local_steps": 1, "horizon": 4},
    "control/cart-pole": {"rounds": 1, "steps": 40, "minibatch": 20, "epochs": 1, "episodes": 2},
    "wang2024/table2": {"rounds": 2, "clients": 2, "betas": "0.1,1", "kappas": "0.6", "local_steps": 2, "horizon": 5},
}


class Block(NamedTuple):
    page: str  # below the root
    line: int
    language: str
    text: str
    marker: str  # what the comment before it says

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def treatment(self) -> str:
        """One of `NOT_RUN`, or "run"."""
        word, _, reason = self.marker.partition(",")
        if word not in NOT_RUN:
            return "run"
        if not reason.strip():
            raise ValueError(f"{self.place}: say why, as in <!-- test: {word}, needs a GPU -->")
        return word


def pages() -> list[str]:
    """README and every page of docs/ but the reference, which has no blocks of its own."""
    docs = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference")
    return ["README.md", *(str(path.relative_to(ROOT)) for path in docs)]


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    marker, language, opened, inside = "", "", 0, []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        fence = re.fullmatch(r"\s*```(.*)", line)
        if opened and fence:
            indent = min((len(it) - len(it.lstrip()) for it in inside if it.strip()), default=0)
            text = "\n".join(it[indent:] for it in inside) + "\n"
            found.append(Block(page, opened, language, text, marker))
            marker, opened, inside = "", 0, []
        elif opened:
            inside.append(line)
        elif fence:
            opened, language = number, fence[1].strip()
            if language not in LANGUAGES:
                raise ValueError(
                    f"{page}:{number}: a block in {language!r}; expected one of {', '.join(sorted(LANGUAGES))}"
                )
        elif comment := re.fullmatch(r"\s*<!-- test: (.*) -->", line):
            marker = comment[1]
        elif line.strip():
            marker = ""
            if re.match(r"\s{4,}fedrl ", line):
                raise ValueError(f"{page}:{number}: a command outside a fence; put it into a block ```sh")
    if opened:
        raise ValueError(f"{page}:{opened}: this block is not closed")
    return found


def smaller(block: Block) -> str:
    """A Python block with small numbers: those of its comment, otherwise at most those of `LARGEST`."""
    asked = dict(re.findall(r"(\w+)=([\w.]+)", block.marker))
    text = block.text
    for name, value in asked.items():
        text, changed = re.subn(rf"\b{name}=[\d_.e-]+", f"{name}={value}", text)
        if not changed:
            raise ValueError(
                f"{block.place}: the comment asks for {name}={value}, and no number in the block is called so"
            )

    def at_most(match: re.Match[str]) -> str:
        name, value = match[1], int(match[2])
        return match[0] if name in asked else f"{name}={min(value, LARGEST[name])}"

    return re.sub(rf"\b({'|'.join(LARGEST)})=(\d[\d_]*)\b(?!\.)", at_most, text)


def commands(text: str) -> list[str]:
    """The commands of a block without comments, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line for it in joined.splitlines() if (line := re.sub(r"(^|\s)#.*", "", it).strip())]


def inline_commands(page: str) -> list[str]:
    """`fedrl …` in the running text."""
    outside = re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(), flags=re.M | re.S)
    return [" ".join(it.split()) for it in re.findall(r"`(fedrl [a-z][^`]*)`", outside)]
