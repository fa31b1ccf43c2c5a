"""Reference implementation of `gridcore.dgs.overlay`: a list of [neighbour, age] per node."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.reference.arguments import integers

__all__ = ["Views"]

_BITS = 2**64 - 1


class Views:
    """Reference implementation of `gridcore.dgs.overlay.Views`."""

    def __init__(
        self,
        nodes: SupportsIndex,
        degree: SupportsIndex,
        *,
        shuffle: SupportsIndex = 8,
        seed: SupportsIndex = 0,
    ) -> None:
        self.nodes, self.degree, self.shuffle = int(nodes), int(degree), int(shuffle)
        self._state = int(seed)
        self._rows: list[list[list[int]]] = [[] for _ in range(self.nodes)]
        for u, row in enumerate(self._rows):
            if self.nodes - 1 <= 2 * self.degree:
                others = [v for v in range(self.nodes) if v != u]
                for k in range(min(self.degree, len(others))):
                    j = k + self._draw_below(len(others) - k)
                    others[j], others[k] = others[k], others[j]
                    row.append([others[k], 0])
            while len(row) < min(self.degree, self.nodes - 1):
                other = self._draw_below(self.nodes)
                if other != u and not self._knows(u, other):
                    row.append([other, 0])

    def _draw_below(self, n: int) -> int:
        return (self._next_bits() >> 32) * n >> 32

    def _next_bits(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _BITS
        x = self._state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _BITS
        return x ^ (x >> 31)

    def _knows(self, u: int, other: int) -> bool:
        return any(entry == other for entry, _ in self._rows[u])

    # -- what there is ----------------------------------------------------------------------------------

    def _table(self, k: int, empty: int, dtype: Any) -> NDArray[Any]:
        rows = [[entry[k] for entry in row] + [empty] * (self.degree - len(row)) for row in self._rows]
        return np.array(rows, dtype)

    @property
    def views(self) -> NDArray[np.int32]:
        return self._table(0, -1, np.int32)

    @property
    def ages(self) -> NDArray[np.uint8]:
        return self._table(1, 0, np.uint8)

    def in_degree(self) -> NDArray[np.int64]:
        known = [entry for row in self._rows for entry, _ in row]
        return np.bincount(np.array(known, np.int64), minlength=self.nodes)

    def pick(
        self,
        nodes: ArrayLike,
        first: ArrayLike,
        second: ArrayLike,
        count: int,
        *,
        seed: int = 0,
        known_down: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        is_down = [False] * self.nodes if known_down is None else self._presence(known_down)
        before, offsets, chosen = self._state, [0], []
        for node, a, b in zip(integers(nodes), integers(first), integers(second), strict=True):
            self._state = seed
            self._state = self._next_bits() ^ (a & _BITS)
            self._state = self._next_bits() ^ (b & _BITS)
            known = [other for other, _ in self._rows[node] if not is_down[other]]
            for k in range(min(len(known), count)):
                j = k + self._draw_below(len(known) - k)
                known[k], known[j] = known[j], known[k]
                chosen.append(known[k])
            offsets.append(len(chosen))
        self._state = before
        return np.array(offsets, np.int64), np.array(chosen, np.int64)

    # -- shuffling --------------------------------------------------------------------------------------

    def cycle(self, up: NDArray[np.bool_] | None = None) -> tuple[int, int, int]:
        is_present = self._presence(up)
        exchanges = dropped = new = 0
        for u, row in enumerate(self._rows):
            if not is_present[u] or not row:
                continue
            for entry in row:
                entry[1] = min(entry[1] + 1, 255)
            oldest = max(range(len(row)), key=lambda k: (row[k][1], -k))
            q = row[oldest][0]
            row[oldest], row[-1] = row[-1], row[oldest]
            if not is_present[q]:
                row.pop()
                dropped += 1
                continue
            m, j = min(self.shuffle, len(row)), min(self.shuffle, len(self._rows[q]))
            self._move_sample_to_end(row, 1, m)
            self._move_sample_to_end(self._rows[q], 0, j)
            mine = [[u, 0], *(list(row[-1 - k]) for k in range(1, m))]
            theirs = [list(self._rows[q][-1 - k]) for k in range(j)]
            exchanges += 1
            new += self._take(q, j, mine)
            new += self._take(u, m, theirs)
        return exchanges, dropped, new

    def _move_sample_to_end(self, row: list[list[int]], first: int, m: int) -> None:
        for k in range(first, m):
            a, b = self._draw_below(len(row) - k), len(row) - 1 - k
            row[a], row[b] = row[b], row[a]

    def _take(self, u: int, given: int, got: list[list[int]]) -> int:
        row, new = self._rows[u], 0
        places = list(range(len(row) - 1, len(row) - given - 1, -1))
        for entry in got:
            if entry[0] == u or self._knows(u, entry[0]):
                continue
            if len(row) < self.degree:
                row.append(list(entry))
            elif places:
                row[places.pop(0)] = list(entry)
            else:
                break
            new += 1
        return new

    # -- coming and going -------------------------------------------------------------------------------

    def leave(self, nodes: ArrayLike) -> None:
        for u in integers(nodes):
            self._rows[u].clear()

    def join(
        self, node: int, introducer: int, *, steps: int = 5, up: NDArray[np.bool_] | None = None
    ) -> None:
        is_present = self._presence(up)
        for _ in range(self.degree):
            at = introducer
            for _ in range(steps):
                if not self._rows[at]:
                    break
                onward = self._rows[at][self._draw_below(len(self._rows[at]))][0]
                if onward != node and is_present[onward]:
                    at = onward
            row = self._rows[at]
            known = at
            if not self._knows(at, node):
                if len(row) == self.degree:
                    k = self._draw_below(len(row))
                    known, row[k] = row[k][0], [node, 0]
                else:
                    row.append([node, 0])
            if known != node and not self._knows(node, known):
                self._rows[node].append([known, 0])

    def _presence(self, up: Any) -> list[bool]:
        if up is None:
            return [True] * self.nodes
        is_present: list[bool] = up.tolist()
        return is_present
