"""Availability traces: up intervals of hosts, the common result of the `.avt` and FTA readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class AvailabilityTrace:
    """Up intervals of n hosts.

    Parameters
    ----------
    path
        The file that was read.
    names
        Names of the n hosts, including hosts that were never up and have no intervals.
    offsets
        int64[n + 1]; the up intervals of host i are `start[offsets[i]:offsets[i + 1]]`.
    start, end
        float64, s; the up intervals, sorted within a host, disjoint, not touching, not empty.
    first
        float64[n], s; the time at which each host joined, which is that of its first record.
    horizon
        End of the last record of the trace, s.
    origin
        Time in the file that is time 0 of this trace, s.
    """

    path: str
    names: tuple[str, ...]
    offsets: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    first: NDArray[np.float64]
    horizon: float
    origin: float = 0.0

    def __len__(self) -> int:
        return len(self.names)

    def intervals(self, host: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the starts and ends of the up intervals of one host, s (views)."""
        part = slice(int(self.offsets[host]), int(self.offsets[host + 1]))
        return self.start[part], self.end[part]

    def up_time(self) -> NDArray[np.float64]:
        """Return the total up time of each host: float64[n], s."""
        host = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        up = np.bincount(host, weights=self.end - self.start, minlength=len(self))
        return up.astype(np.float64)

    def availability(self) -> NDArray[np.float64]:
        """Return the share of time that each host was up between joining and the horizon: float64[n].

        It is 0 for a host that joined at the horizon.
        """
        observed = self.horizon - self.first
        share: NDArray[np.float64] = np.divide(
            self.up_time(), observed, out=np.zeros(len(self)), where=observed > 0
        )
        return share


@dataclass(frozen=True)
class RawIntervals:
    """Up intervals as they are in a file, one row per interval, in any order; times are s.

    Parameters
    ----------
    line
        Line of each interval in the file.
    """

    host: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    line: NDArray[np.int64]

    def empty_rows(self) -> NDArray[np.int64]:
        """Return the rows of intervals of 0 s (below the trace's resolution), in file order."""
        return np.flatnonzero(self.end == self.start)

    def clashing_rows(self) -> NDArray[np.int64]:
        """Return the rows of intervals that touch or overlap earlier intervals of their host, in file order.

        Such an interval begins at or before the latest end of the earlier intervals.
        """
        rows = np.flatnonzero(self.end > self.start)
        rows = rows[np.lexsort((self.end[rows], self.start[rows], self.host[rows]))]
        host, start, end = self.host[rows], self.start[rows], self.end[rows]
        clash = np.zeros(len(rows), dtype=bool)
        clash[1:] = (host[1:] == host[:-1]) & (start[1:] <= end[:-1])
        # a long interval may overlap several later ones, which only a running maximum shows; it is needed
        # only for hosts with a clash
        for clash_host in np.unique(host[clash]):
            low, high = np.searchsorted(host, [clash_host, clash_host + 1])
            clash[low + 1 : high] = start[low + 1 : high] <= np.maximum.accumulate(end[low:high])[:-1]
        return np.sort(rows[clash])


def assemble(
    path: str,
    names: Sequence[str],
    raw: RawIntervals,
    *,
    first: NDArray[np.float64],
    horizon: float,
    origin: float = 0.0,
) -> tuple[AvailabilityTrace, list[tuple[int, int, str]]]:
    """Return a trace of raw intervals, dropping empty and merging overlapping intervals, and the repairs.

    The repairs are in the form that `warn_repairs` takes.
    """
    empty, clashing = raw.empty_rows(), raw.clashing_rows()
    head = np.ones(len(raw.host), dtype=bool)  # the rows that begin an interval of the result
    head[clashing] = False
    rows = np.flatnonzero(raw.end > raw.start)
    rows = rows[np.lexsort((raw.end[rows], raw.start[rows], raw.host[rows]))]
    begins = np.flatnonzero(head[rows])
    host, start = raw.host[rows][begins], raw.start[rows][begins]
    end = np.maximum.reduceat(raw.end[rows], begins) if len(rows) else np.empty(0)
    offsets = np.searchsorted(host, np.arange(len(names) + 1)).astype(np.int64)
    for column in (offsets, start, end, first):
        column.flags.writeable = False
    merge_text = "up intervals touching or overlapping another, merged"
    repairs = [
        (len(empty), first_line(raw.line, empty), "up intervals of 0 s, left out"),
        (len(clashing), first_line(raw.line, clashing), merge_text),
    ]
    return AvailabilityTrace(path, tuple(names), offsets, start, end, first, horizon, origin), repairs


def first_line(line: NDArray[np.int64], rows: NDArray[Any]) -> int:
    """Return the smallest line number of `rows`; 0 if there are no rows."""
    return int(line[rows].min()) if len(rows) else 0
