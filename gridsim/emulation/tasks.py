"""Sets of tasks of an application, stored as intervals of their numbers.

Node programs only count tasks.  However, each task has its own true size, which may differ from the estimate
that nodes see.  Therefore nodes, messages and queues hold individual tasks: their numbers are passed from
process to process, and each task is in exactly one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Numbers of tasks as half-open intervals [first, end).
Parts = Sequence[Sequence[int]]


def count_of(parts: Parts) -> int:
    """Return the number of tasks in `parts`."""
    return sum(end - first for first, end in parts)


class TaskSet:
    """Set of tasks of one application, in the order in which they were added."""

    __slots__ = ("count", "parts")

    def __init__(self, parts: Parts = ()) -> None:
        self.parts: list[tuple[int, int]] = []
        self.count = 0
        self.add(parts)

    def __len__(self) -> int:
        return self.count

    def add(self, parts: Parts) -> None:
        """Append tasks."""
        for first, end in parts:
            if self.parts and self.parts[-1][1] == first:
                self.parts[-1] = self.parts[-1][0], end
            elif first < end:
                self.parts.append((first, end))
            self.count += end - first

    def take(self, tasks: int) -> list[tuple[int, int]]:
        """Remove and return the first `tasks` tasks, which must exist."""
        if self.parts and 0 < tasks < self.parts[0][1] - self.parts[0][0]:
            first, end = self.parts[0]
            self.parts[0], self.count = (first + tasks, end), self.count - tasks
            return [(first, first + tasks)]
        taken, left = _split(self.parts, tasks)
        self.parts, self.count = left, self.count - tasks
        return taken

    def take_last(self, tasks: int) -> list[tuple[int, int]]:
        """Remove and return the last `tasks` tasks, which must exist."""
        left, taken = _split(self.parts, self.count - tasks)
        self.parts, self.count = left, self.count - tasks
        return taken

    def take_all(self) -> list[tuple[int, int]]:
        """Remove and return all tasks."""
        return self.take(self.count)

    def remove(self, parts: Parts) -> None:
        """Remove given tasks, which must be in the set."""
        for first, end in parts:
            at = next(k for k, (low, high) in enumerate(self.parts) if low <= first and end <= high)
            low, high = self.parts[at]
            self.parts[at : at + 1] = [part for part in ((low, first), (end, high)) if part[0] < part[1]]
            self.count -= end - first


def _split(
    parts: Iterable[tuple[int, int]], tasks: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Split `parts` after the first `tasks` tasks; raises ValueError if there are fewer."""
    before: list[tuple[int, int]] = []
    after: list[tuple[int, int]] = []
    for first, end in parts:
        middle = min(end, first + tasks)
        tasks -= middle - first
        if first < middle:
            before.append((first, middle))
        if middle < end:
            after.append((middle, end))
    if tasks:
        raise ValueError(f"parts must have at least as many tasks as are taken, got {tasks} too few")
    return before, after
