"""The optimum for a node and its children, without a solver: data-intensive applications go over fast links.

Let applications be sorted by the bytes of a task for each Mflop, the largest first, and children by the
bandwidth of their links, the fastest first.  Work is then given out in both orders: the first applications
to the first child until it is full, and so on.  Among all ways to place given amounts of work this one keeps
the port for the least time: the time of a Mflop is a product of a factor of the application and one of the
child, and exchanging equal amounts between two children makes it longer.  So the throughput is as large as it
can be if it grows until all children are full, or the port is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

#: Halvings of the range of the throughput.
_STEPS = 40


def sorted_shares(
    children: Mapping[int, tuple[float, float]],
    applications: Mapping[int, tuple[float, float, float]],
    limit: float = math.inf,
) -> tuple[float, dict[int, dict[int, float]]]:
    """Return the largest throughput in the given ratio, and the rates at which it is reached.

    Returns t, and application -> child -> tasks/s, > 0: those of an application add up to its weight times
    t.  Ties go to the lowest number.

    Parameters
    ----------
    children
        Child -> Mflop/s, and bandwidth of its link (inf for the node itself, which needs no link).
    applications
        Number -> Mflop and bytes of a task, weight.
    limit
        Bytes/s that the node sends at most.
    """
    places = [
        (child, speed, 0.0 if math.isinf(link) else 1.0 / min(link, limit))
        for child, (speed, link) in sorted(children.items(), key=lambda each: (-each[1][1], each[0]))
    ]
    order = sorted(applications.items(), key=lambda each: (-each[1][1] / each[1][0], each[0]))
    each = [(number, size, data / size, weight * size) for number, (size, data, weight) in order]
    most = sum(speed for _, speed, _ in places) / sum(work for *_, work in each)
    low, high = 0.0, most
    if _port(_filled(places, each, most)) <= 1.0:
        low = most
    else:
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _port(_filled(places, each, middle)) <= 1.0 else (low, middle)
    rates: dict[int, dict[int, float]] = {number: {} for number in applications}
    for number, child, mflops, _ in _filled(places, each, low):
        rates[number][child] = mflops / applications[number][0]
    return low, rates


def _filled(
    places: list[tuple[int, float, float]], each: list[tuple[int, float, float, float]], level: float
) -> list[tuple[int, int, float, float]]:
    """Return (application, child, Mflop/s, share of the port's time) for all that are placed."""
    found, at, left = [], 0, places[0][1]
    for number, _, ratio, work in each:
        wanted = work * level
        while wanted > 0.0 and at < len(places):
            child, _, slowness = places[at]
            given = min(wanted, left)
            if given > 0.0:
                found.append((number, child, given, given * ratio * slowness))
            wanted, left = wanted - given, left - given
            if left <= 0.0:
                at += 1
                left = places[at][1] if at < len(places) else 0.0
    return found


def _port(filled: Iterable[tuple[int, int, float, float]]) -> float:
    return math.fsum(time for *_, time in filled)
