"""Which worker does which client's work. This affects how long a round takes, never its result."""

import heapq
from collections.abc import Mapping, Sequence


def longest_first(ids: Sequence[int], seconds: Mapping[int, float], workers: int) -> list[list[int]]:
    """The longest work first, each to the worker with the least so far (Graham 1969): at most 4/3 of the shortest makespan.

    A client that has not been timed yet counts as one second.
    """
    places: list[list[int]] = [[] for _ in range(workers)]
    loads = [(0.0, worker) for worker in range(workers)]
    for client in sorted(ids, key=lambda i: (-seconds.get(i, 1.0), i)):
        load, worker = heapq.heappop(loads)
        places[worker].append(client)
        heapq.heappush(loads, (load + seconds.get(client, 1.0), worker))
    return [sorted(place) for place in places]


def makespan(places: Sequence[Sequence[int]], seconds: Mapping[int, float]) -> float:
    """When the last worker finishes."""
    return max(sum(seconds.get(i, 1.0) for i in place) for place in places)


def reschedule(
    before: list[list[int]], ids: Sequence[int], seconds: Mapping[int, float], workers: int, gain: float = 1.2
) -> list[list[int]]:
    """`longest_first`, but as `before` unless it saves much: a worker keeps the simulators of its clients open."""
    new = longest_first(ids, seconds, workers)
    same = len(before) == workers and sorted(i for place in before for i in place) == sorted(ids)
    return before if same and makespan(before, seconds) <= gain * makespan(new, seconds) else new
