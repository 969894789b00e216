"""JSON files read record by record: only one chunk of text and one record are in memory, whatever the file's size."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

CHUNK = 1 << 20  # characters
_DECODER = json.JSONDecoder()
_MARGIN = 16  # an error this near the end of what was read may be due to the cut


def records(path: Path, what: str) -> Iterator[tuple[int, Any]]:
    """Number, from 1, and content of each element of the list in `path`; `what` names the elements in errors."""
    with _open(path, what) as file:
        reader = _Reader(path, file, f"a JSON list of {what}")
        reader.expect("[", 0)
        number = 0
        while reader.peek() != "]" or number == 0:
            if number:
                reader.expect(",", number)
            elif reader.peek() == "]":
                raise ValueError(f"{path} holds an empty list, expected {what}; {_NEXT_MOVE}")
            number += 1
            yield number, reader.value(number)


def members(path: Path, what: str) -> Iterator[tuple[int, str, Any]]:
    """Number, key and value of each member of the object in `path`; an object without any is fine."""
    with _open(path, what) as file:
        reader = _Reader(path, file, f"a JSON object of {what}")
        reader.expect("{", 0)
        number = 0
        while reader.peek() != "}":
            if number:
                reader.expect(",", number)
            number += 1
            key = reader.value(number)
            reader.expect(":", number)
            yield number, key, reader.value(number)


_NEXT_MOVE = "give WebShop's own file or one that `catalogue.write` made"


def _open(path: Path, what: str) -> TextIO:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}, expected {what}; {_NEXT_MOVE}")
    return path.open(encoding="utf-8")


class _Reader:
    """A cursor in a file of which only the current part is in memory."""

    def __init__(self, path: Path, file: TextIO, expected: str) -> None:
        self.path, self.file, self.expected = path, file, expected
        self.text, self.at, self.ended = "", 0, False

    def peek(self) -> str:
        """The next character that is not blank, "" at the end of the file."""
        while True:
            while self.at < len(self.text):
                if not self.text[self.at].isspace():
                    return self.text[self.at]
                self.at += 1
            if self.ended:
                return ""
            self._more(0)

    def expect(self, mark: str, number: int) -> None:
        """Step over `mark`; `number` is that of the record just read, 0 before the first."""
        character = self.peek()
        if character == mark:
            self.at += 1
            return
        place = f"after record {number}" if number else "at the start"
        actual = f"{character!r}" if character else "the end of the file" if number else "an empty file"
        raise ValueError(f"{self.path}: {actual} came {place}, expected {mark!r} of {self.expected}; {_NEXT_MOVE}")

    def value(self, number: int) -> Any:
        """The JSON value at the cursor."""
        self.peek()
        while True:
            try:
                value, self.at = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(self.text) - _MARGIN or error.msg.startswith("Unterminated string")
                if self.ended or not is_cut:
                    problem = "stops in the middle" if is_cut else f"is not JSON ({error.msg})"
                    raise ValueError(
                        f"{self.path}: record {number} {problem}, expected {self.expected}; {_NEXT_MOVE}"
                    ) from None
                self._more(number)
            else:
                return value

    def _more(self, number: int) -> None:
        """Drop what was read, and read on: as much again as is left, so that long records stay linear."""
        rest = self.text[self.at :]
        try:
            chunk = self.file.read(max(CHUNK, len(rest)))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path}: text at or after record {number} is not UTF-8 ({error.reason}), "
                f"expected {self.expected}; {_NEXT_MOVE}"
            ) from None
        self.text, self.at, self.ended = rest + chunk, 0, not chunk
