"""Reference implementation of `gridcore.dgs.slots`, which tries every slot at which a reservation ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gridcore.common.arrays import Integers
from gridcore.common.state import NEVER
from tests.reference.arguments import integers

__all__ = ["SlotSchedules"]


@dataclass
class Booking:
    """One reservation of a node: slots [start, end), and the instants (ns) of its creation and release."""

    start: int
    end: int
    job: int
    made: int
    dropped: int = NEVER


class SlotSchedules:
    """Reference implementation of `gridcore.dgs.slots.SlotSchedules`."""

    def __init__(self, nodes: int, *, stale: bool = False) -> None:
        self.nodes, self.stale = int(nodes), stale
        self.own_job: int | None = None
        self._bookings: list[list[Booking]] = [[] for _ in range(self.nodes)]

    # -- reservations -----------------------------------------------------------------------------------

    def reserve(
        self, nodes: ArrayLike, starts: ArrayLike, slots: ArrayLike, jobs: ArrayLike, now: int
    ) -> NDArray[np.bool_]:
        u, at, length = integers(nodes), integers(starts), integers(slots)
        of = integers(jobs)
        completed = []
        for node, start, count, job in zip(u, at, length, of, strict=True):
            free = all(not self._covers(item, start, start + count) for item in self._valid_bookings(node))
            completed.append(free)
            if free:
                self._bookings[node].append(Booking(start, start + count, job, now))
                self._bookings[node].sort(key=lambda item: (item.start, item.dropped))
        return np.array(completed, np.bool_)

    def release(
        self,
        nodes: ArrayLike,
        starts: ArrayLike,
        now: int,
        *,
        ends: ArrayLike | None = None,
        jobs: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        u, at = integers(nodes), integers(starts)
        to = at if ends is None else integers(ends)
        of = None if jobs is None else integers(jobs)
        completed = []
        for k, (node, start, end) in enumerate(zip(u, at, to, strict=True)):
            actual = [
                item
                for item in self._valid_bookings(node)
                if item.start == start and item.end > end and (of is None or item.job == of[k])
            ]
            completed.append(bool(actual))
            for item in actual:
                item.dropped = now
                if end > start:
                    self._bookings[node].append(Booking(start, end, item.job, now))
            self._bookings[node].sort(key=lambda item: (item.start, item.dropped))
        return np.array(completed, np.bool_)

    def extend(self, node: int, start: int, end: int, job: int, now: int) -> tuple[Integers, Integers] | None:
        integers([node])
        own = [
            item
            for item in self._valid_bookings(node)
            if (item.start, item.job) == (start, job) and item.end < end
        ]
        if not own:
            return None
        met = [item for item in self._valid_bookings(node) if start < item.start < end]
        for item in own + met:
            item.dropped = now
        self._bookings[node].append(Booking(start, end, job, now))
        self._bookings[node].sort(key=lambda item: (item.start, item.dropped))
        rows = np.array([(item.job, item.start) for item in met], np.int64).reshape(-1, 2)
        return rows[:, 0].copy(), rows[:, 1].copy()

    def lose(self, nodes: ArrayLike, slot: int, now: int) -> tuple[Integers, Integers, Integers, Integers]:
        lost = []
        for node in integers(nodes):
            for item in self._valid_bookings(node):
                if item.end > slot:
                    item.dropped = now
                    lost.append((node, item.job, item.start, item.end))
        columns = np.array(lost, np.int64).reshape(-1, 4)
        return columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy(), columns[:, 3].copy()

    def forget(self, slot: int, released_by: int) -> None:
        for node in range(self.nodes):
            self._bookings[node] = [
                item for item in self._bookings[node] if item.end > slot and item.dropped > released_by
            ]

    def reservations(self, node: int) -> tuple[Integers, Integers, Integers]:
        rows = np.array([(b.start, b.end, b.job) for b in self._valid_bookings(node)], np.int64).reshape(
            -1, 3
        )
        return rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy()

    # -- looking for room -------------------------------------------------------------------------------

    def is_free(
        self,
        nodes: ArrayLike,
        start: int,
        slots: int,
        as_of: ArrayLike | None = None,
        *,
        own_job: int | None = None,
    ) -> NDArray[np.bool_]:
        u, self.own_job = integers(nodes), own_job
        seen = self._booking_instants(as_of, len(u), "node")
        return np.array([self._fits(n, s, start, slots) for n, s in zip(u, seen, strict=True)], np.bool_)

    def earliest_start(
        self,
        candidates: ArrayLike,
        n_nodes: int,
        slots: int,
        not_before: int,
        as_of: ArrayLike | None = None,
        *,
        own_job: int | None = None,
    ) -> tuple[int, Integers] | None:
        u, self.own_job = integers(candidates), own_job
        seen = self._booking_instants(as_of, len(u), "candidate")
        return self._earliest(list(zip(u, seen, strict=True)), n_nodes, slots, not_before)

    def _earliest(
        self, candidates: list[tuple[int, int]], n_nodes: int, slots: int, not_before: int
    ) -> tuple[int, Integers] | None:
        if len(candidates) < n_nodes:
            return None
        ends = {item.end for node, _ in candidates for item in self._bookings[node]}
        for start in sorted({not_before, *(end for end in ends if end > not_before)}):
            fit = [node for node, as_of in candidates if self._fits(node, as_of, start, slots)]
            if len(fit) >= n_nodes:
                return start, np.array(fit[:n_nodes], np.int64)
        raise AssertionError("after all ends everybody is free")

    def search(
        self,
        views: NDArray[np.int32],
        searchers: ArrayLike,
        n_nodes: ArrayLike,
        slots: ArrayLike,
        not_before: ArrayLike,
        *,
        exclude: ArrayLike = -1,
        include_searcher: bool = False,
        hops: int = 2,
        wide: bool = False,
        known_down: NDArray[np.bool_] | None = None,
        suitable: NDArray[np.bool_] | None = None,
        as_of: ArrayLike | None = None,
        poll_period: int = 0,
        until: int = 0,
    ) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        u, self.own_job = integers(searchers), None
        seen = self._booking_instants(as_of, self.nodes, "node")
        expected, length = _repeat_scalar(n_nodes, len(u)), _repeat_scalar(slots, len(u))
        since, without = _repeat_scalar(not_before, len(u)), _repeat_scalar(exclude, len(u))
        if poll_period:
            seen = [max([-1, *range(at, until + 1, poll_period)]) for at in seen]
        starts, chosen, reached, opened = [], [], [], []
        for searcher, count_of, lasts, at_least, other_ in zip(
            u, expected, length, since, without, strict=True
        ):
            candidates: list[tuple[int, int]] = []
            reach: list[int] = []
            known = {other_} if include_searcher else {other_, searcher}
            job_ = count_of, lasts, at_least
            count = 0

            def open_(
                who: int,
                known: set[int] = known,
                to: list[tuple[int, int]] = candidates,
                met: list[int] = reach,
                job: tuple[int, int, int] = job_,
                own: int = searcher,
            ) -> bool:
                for other in views[who].tolist():
                    if other >= 0 and other not in known and (known_down is None or not known_down[other]):
                        known.add(other)
                        met.append(other)
                        if suitable is None or suitable[other]:
                            to.append((other, NEVER - 1 if other == own else seen[who]))
                return sum(self._fits(node, at, job[2], job[1]) for node, at in to) >= job[0]

            completed, hop, front = open_(searcher), 1, 0
            while (
                not completed and front < len(reach) and (hop < hops or (wide and len(candidates) < count_of))
            ):
                last = len(reach)
                while not completed and front < last:
                    if reach[front] != searcher:
                        count += 1
                        completed = open_(reach[front])
                    front += 1
                hop += 1
            actual = self._earliest(candidates, count_of, lasts, at_least)
            starts.append(-1 if actual is None else actual[0])
            chosen.append(np.zeros(0, np.int64) if actual is None else actual[1])
            reached.append(len(candidates))
            opened.append(count)
        offsets = np.cumsum([0, *map(len, chosen)])
        columns = (starts, offsets, np.concatenate([np.zeros(0, np.int64), *chosen]), reached, opened)
        one, two, three, four, five = (np.array(column, np.int64) for column in columns)
        return one, two, three, four, five

    # -- helpers ----------------------------------------------------------------------------------------

    def _valid_bookings(self, node: int) -> list[Booking]:
        return [item for item in self._bookings[node] if item.dropped == NEVER]

    @staticmethod
    def _covers(each: Booking, start: int, end: int) -> bool:
        return each.start < end and start < each.end

    def _fits(self, node: int, as_of: int, start: int, slots: int) -> bool:
        return not any(
            item.made <= as_of < item.dropped and self._covers(item, start, start + slots)
            for item in self._bookings[node]
            if item.dropped != NEVER or item.job != self.own_job
        )

    def _booking_instants(self, as_of: Any, n: int, name: str) -> list[int]:
        if as_of is None:
            return [NEVER - 1] * n
        if isinstance(as_of, int | np.integer):
            return [int(as_of)] * n
        return integers(as_of)


def _repeat_scalar(value: ArrayLike, n: int) -> list[int]:
    if isinstance(value, int | np.integer):
        return [int(value)] * n
    return integers(value)
