"""Reference implementation of `gridcore.common.release_queue`; it looks at all applications each time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridcore.common.state import NEVER
from tests.reference.arguments import integers

__all__ = ["ReleaseQueue"]


class ReleaseQueue:
    """Reference implementation of `gridcore.common.release_queue.ReleaseQueue`."""

    def __init__(
        self, release: ArrayLike, predecessors: ArrayLike, offsets: ArrayLike, think: ArrayLike
    ) -> None:
        self._stated, self._think = integers(release), integers(think)
        before, begins = integers(predecessors), integers(offsets)
        self._before = [before[begin:end] for begin, end in zip(begins, begins[1:], strict=False)]
        self.applications = len(self._stated)
        self._ends: dict[int, int] = {}
        self._released: dict[int, int] = {}  # in order of release
        self._skipped: set[int] = set()

    def _due(self) -> list[tuple[int, int]]:
        """Return the releases that are known and still to come, with the applications."""
        return sorted(
            (self._at(i), i)
            for i in range(self.applications)
            if i not in self._released and all(j in self._ends for j in self._before[i])
        )

    def _at(self, i: int) -> int:
        ends = [self._ends[j] + self._think[i] for j in self._before[i] if j in self._ends]
        return max([self._stated[i], *ends])

    @property
    def release(self) -> Any:
        at = [self._released.get(i, self._at(i)) for i in range(self.applications)]
        return np.array(at, np.int64)

    def skip(self, applications: ArrayLike) -> None:
        self._skipped |= set(integers(applications))

    def next_release(self) -> int:
        return min((at for at, _ in self._due()), default=NEVER)

    def take(self, now: int) -> list[int]:
        taken = []
        while (due := self._due()) and due[0][0] <= now:
            at, i = due[0]
            self._released[i] = at
            if i in self._skipped:
                self.end([i], at)
            else:
                taken.append(i)
        return taken

    def end(self, applications: ArrayLike, now: int) -> None:
        for i in integers(applications):
            if i in self._released:
                self._ends.setdefault(i, now)

    def close(self, now: int) -> None:
        self.end(list(self._released), now)
        while due := self._due():
            now = due[0][0]
            self.end(self.take(now), now)
