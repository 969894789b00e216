"""Fetching the sites' answers, each in a thread of its own.

Flower fetches an answer whole before anybody sees it, and waits for hours for parts that a site announced and never sent.
If it cannot read one, it raises, and has already dropped all others that it fetched with it. So each is fetched alone, and
whoever waits for a site does not wait for Flower.
"""

import threading
import time
from collections.abc import Collection

from flwr.app import Message
from flwr.serverapp import Grid

SOON = 0.5  # seconds in which Flower says that there is no answer, or brings a small one


class Fetching:
    """Answers under way, by the name of the message that they answer."""

    def __init__(self, grid: Grid):
        self.grid = grid
        self.under_way: dict[str, threading.Thread] = {}
        self.found: dict[str, Message | Exception] = {}

    def look(self, names: Collection[str]) -> dict[str, Message | Exception]:
        """What has come to these messages: an answer, or why it cannot be read."""
        for name in names:
            if name not in self.under_way:
                self.under_way[name] = threading.Thread(target=self._fetch, args=(name,), daemon=True)
                self.under_way[name].start()
        end = time.monotonic() + SOON
        for name in names:
            self.under_way[name].join(max(0.0, end - time.monotonic()))
        ended = [name for name, thread in self.under_way.items() if not thread.is_alive()]
        for name in ended:
            del self.under_way[name]
        found = {name: self.found.pop(name) for name in ended if name in self.found}
        return {name: it for name, it in found.items() if name in names}  # nobody waits for the others any more

    def _fetch(self, name: str) -> None:
        try:
            for message in self.grid.pull_messages([name]):
                self.found[name] = message
        except Exception as error:  # raised by what a site sent; `Sites.pull` has the word
            self.found[name] = error
