"""The engines' reports about clients' faults, by exchange, round, seed and client; the log of a run quotes them."""

from collections.abc import Callable

ReportFault = Callable[[str, int, int, str], None]  # (exchange, seed counted from zero, client, what happened)


class FaultLog:
    def __init__(self) -> None:
        self.first_seed, self.round = 0, 0  # being played
        self.reasons: dict[tuple[str, int, int, int], str] = {}

    def report(self, exchange: str, seed: int, client: int, text: str) -> None:
        self.reasons[exchange, self.round, seed, client] = text

    def explain(self, exchange: str, round: int, seed: int, client: int) -> str:
        return self.reasons.get((exchange, round, seed, client), "")

    def clear(self) -> None:
        self.reasons.clear()
