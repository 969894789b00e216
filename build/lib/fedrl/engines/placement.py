"""Which worker does whose work. It decides how long a round takes and never what comes out of it."""

import heapq
from collections.abc import Mapping, Sequence


def longest_first(ids: Sequence[int], expected_work: Mapping[int, float], workers: int) -> list[list[int]]:
    """The longest work first, each to the worker with the least so far (Graham 1969): at most 4/3 of the shortest time.

    A client nobody has timed yet counts as one second.
    """
    places: list[list[int]] = [[] for _ in range(workers)]
    loads = [(0.0, worker) for worker in range(workers)]
    for client in sorted(ids, key=lambda i: (-expected_work.get(i, 1.0), i)):
        load, worker = heapq.heappop(loads)
        places[worker].append(client)
        heapq.heappush(loads, (load + expected_work.get(client, 1.0), worker))
    return [sorted(place) for place in places]


def longest(places: Sequence[Sequence[int]], expected_work: Mapping[int, float]) -> float:
    """When the last worker is done."""
    return max(sum(expected_work.get(i, 1.0) for i in place) for place in places)


def settled(
    before: list[list[int]], ids: Sequence[int], expected_work: Mapping[int, float], workers: int, gain: float = 1.2
) -> list[list[int]]:
    """`longest_first`, or as `before` unless moving is worth it: a worker has its clients' simulators open."""
    new = longest_first(ids, expected_work, workers)
    same = len(before) == workers and sorted(i for place in before for i in place) == sorted(ids)
    return before if same and longest(before, expected_work) <= gain * longest(new, expected_work) else new
