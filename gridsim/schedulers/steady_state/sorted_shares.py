"""The optimum for a node and its children, without a solver: data-intensive applications use fast links.

Applications are sorted by their bytes per Mflop in descending order, and children by the bandwidth of their
links in descending order.  Work is assigned in both orders: the first applications to the first child until
it is full, and so on.  Of all placements of given amounts of work, this one uses the port for the least time:
the time of a Mflop is the product of a factor of the application and one of the child, and exchanging equal
amounts between two children increases it.  So the largest throughput is the one at which all children, or the
port, are fully used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

#: Number of bisections of the range of the throughput.
_STEPS = 40


def sorted_shares(
    children: Mapping[int, tuple[float, float]],
    applications: Mapping[int, tuple[float, float, float]],
    limit: float = math.inf,
) -> tuple[float, dict[int, dict[int, float]]]:
    """Return the largest throughput in the ratio of the weights, and the rates that achieve it.

    Ties go to the lowest number.

    Parameters
    ----------
    children
        Child -> speed (Mflop/s) and bandwidth of its link (bytes/s; inf for the node itself).
    applications
        Application -> size (Mflop) and input (bytes) of a task, and weight.
    limit
        Bandwidth of the node, bytes/s.

    Returns
    -------
    level
        Throughput t, tasks/s per unit of weight.
    rates
        Application -> child -> tasks/s, all > 0; the rates of an application sum to its weight times t.
    """
    receivers = [
        (child, speed, 0.0 if math.isinf(link) else 1.0 / min(link, limit))
        for child, (speed, link) in sorted(children.items(), key=lambda entry: (-entry[1][1], entry[0]))
    ]
    order = sorted(applications.items(), key=lambda entry: (-entry[1][1] / entry[1][0], entry[0]))
    demands = [(number, size, data / size, weight * size) for number, (size, data, weight) in order]
    maximum = sum(speed for _, speed, _ in receivers) / sum(work for *_, work in demands)
    low, high = 0.0, maximum
    if _port_share(_allocate(receivers, demands, maximum)) <= 1.0:
        low = maximum
    else:
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            fits = _port_share(_allocate(receivers, demands, middle)) <= 1.0
            low, high = (middle, high) if fits else (low, middle)
    rates: dict[int, dict[int, float]] = {number: {} for number in applications}
    for number, child, mflops, _ in _allocate(receivers, demands, low):
        rates[number][child] = mflops / applications[number][0]
    return low, rates


def _allocate(
    receivers: list[tuple[int, float, float]], demands: list[tuple[int, float, float, float]], level: float
) -> list[tuple[int, int, float, float]]:
    """Return (application, child, Mflop/s, share of the port's time) for each allocation."""
    rows, index, left = [], 0, receivers[0][1]
    for number, _, ratio, work in demands:
        demand = work * level
        while demand > 0.0 and index < len(receivers):
            child, _, slowness = receivers[index]
            amount = min(demand, left)
            if amount > 0.0:
                rows.append((number, child, amount, amount * ratio * slowness))
            demand, left = demand - amount, left - amount
            if left <= 0.0:
                index += 1
                left = receivers[index][1] if index < len(receivers) else 0.0
    return rows


def _port_share(rows: Iterable[tuple[int, int, float, float]]) -> float:
    return math.fsum(time for *_, time in rows)
