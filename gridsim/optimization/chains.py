"""Lower bounds of the end of the last application, if some are released after others have ended."""

from __future__ import annotations

import numpy as np

from gridsim.support.arrays import Floats, Integers


def earliest_ends(
    release: Floats, duration: Floats, predecessors: Integers, offsets: Integers, think: Floats
) -> Floats:
    """Return the earliest possible end of each application, float64[n], s.

    No application is released before its stated release, nor before the earliest ends of its predecessors
    and its think time; so the last end is at least that of the longest chain.

    Parameters
    ----------
    release, duration, think
        Stated release, shortest possible duration and think time of each application, float64[n], s.
    predecessors, offsets
        int64[sum], the predecessors of all applications, and int64[n + 1]: those of application i are at
        ``offsets[i]`` to ``offsets[i + 1]``; without a circle.
    """
    numbers, counts = predecessors.tolist(), np.diff(offsets)
    order = np.argsort(predecessors, kind="stable")
    after = np.repeat(np.arange(len(counts)), counts)[order].tolist()
    begins = np.searchsorted(predecessors[order], np.arange(len(counts) + 1)).tolist()
    ends, left, starts = [0.0] * len(counts), counts.tolist(), offsets.tolist()
    free = np.flatnonzero(counts == 0).tolist()
    while free:
        i = free.pop()
        last = max((ends[j] + think[i] for j in numbers[starts[i] : starts[i + 1]]), default=0.0)
        ends[i] = float(max(release[i], last) + duration[i])
        for j in after[begins[i] : begins[i + 1]]:
            left[j] -= 1
            if not left[j]:
                free.append(j)
    return np.array(ends)


def last_end(release: Floats, work: Floats, speed: float) -> float:
    """Return a lower bound of the last end, s: what is released from an instant on takes its work / speed.

    Parameters
    ----------
    release, work
        Earliest release of each application, s, and its work, float64[n].
    speed
        Work that all machines can do in a second.
    """
    order = np.argsort(-release, kind="stable")
    return float((release[order] + np.cumsum(work[order]) / speed).max())
