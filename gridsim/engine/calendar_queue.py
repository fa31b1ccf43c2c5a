"""A calendar queue of pending entries, ordered by time.

A heap of 100,000 entries spends its time waiting for memory: each push and pop visits a dozen tuples that
are scattered in memory.  In a calendar queue, an entry that is not due before the *horizon* is appended,
unsorted, to the page of its time, and is not read again until that page is next.  Then the page is sorted at
C speed and becomes the short list `Calendar.front`.  While few entries are pending there are no pages, and
all entries are in `front`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

#: (time, rank, ...): entries with equal times and ranks are compared by their other items.
Entry = tuple[Any, ...]

# The target size of `front`: sorting, searching and cutting such a list takes as long as a few cache misses.
_FRONT_SIZE = 256
# The target size of a page, and the smallest size that is worth the overhead of a page.
_PAGE_SIZE, _MIN_PAGE_SIZE = 64, 4
# The horizon while there are no pages; it is later than any entry.
_NO_HORIZON = 1 << 64


class Calendar:
    """A priority queue of entries (time, rank, ...) with integer times.

    `front` is the sorted list of all entries that are due before `horizon`.  So either all entries of one
    instant are in it, or none.  The owner of the calendar removes entries from the beginning of `front`, and
    calls `fill_front` when it is empty.
    """

    def __init__(self) -> None:
        self.front: list[Entry] = []
        self.horizon = _NO_HORIZON
        #: The length above which `spill` must shorten `front`.
        self.front_limit = 2 * _FRONT_SIZE
        self._pages: dict[int, list[Entry]] = {}
        self._numbers: list[int] = []
        # A page holds the entries with one value of time >> shift.  A bad shift is changed once it has wasted
        # about as much work as it takes to refile all entries, so refiling takes at most a constant share of
        # the time.
        self._shift = 0
        self._waste = 0
        self._waste_limit = 0

    def __len__(self) -> int:
        return len(self.front) + sum(map(len, self._pages.values()))

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all entries, in no particular order."""
        yield from self.front
        for page in self._pages.values():
            yield from page

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        time = entry[0]
        if time < self.horizon:
            front = self.front
            insort(front, entry)
            if len(front) > self.front_limit:
                self.spill()
        else:
            self.add_to_page(entry)

    def add_to_page(self, entry: Entry) -> None:
        """Add an entry that is not due before the horizon."""
        number = entry[0] >> self._shift
        try:
            self._pages[number].append(entry)
        except KeyError:
            self._pages[number] = [entry]
            heappush(self._numbers, number)

    def remove(self, entry: Entry) -> bool:
        """Remove one entry that equals `entry`; return False if there is none."""
        if entry[0] < self.horizon:
            i = bisect_left(self.front, entry)
            exists = i < len(self.front) and self.front[i] == entry
            if exists:
                del self.front[i]
            return exists
        try:
            self._pages[entry[0] >> self._shift].remove(entry)
        except (KeyError, ValueError):
            return False
        return True

    def fill_front(self) -> bool:
        """Fill `front` from the next page if it is empty; return False if no entry is pending."""
        front = self.front
        while not front:
            if not self._numbers:
                self.horizon = _NO_HORIZON
                return False
            number = heappop(self._numbers)
            front += self._pages.pop(number)
            front.sort()
            self.horizon = number + 1 << self._shift
            if len(front) > _FRONT_SIZE:
                # The rest becomes a page again; it is cheap to sort later, since it is mostly sorted.
                rest = self._cut(_FRONT_SIZE)
                if rest:
                    self._pages[number] = rest
                    heappush(self._numbers, number)
                    self._waste += len(rest)
                    if self._waste > self._waste_limit:
                        self._refile(self._shift - (len(rest) // _PAGE_SIZE).bit_length())
            elif len(front) < _MIN_PAGE_SIZE:
                self._waste += 1
                if self._waste > self._waste_limit:
                    self._refile(self._shift + 3)
        self.front_limit = max(2 * _FRONT_SIZE, 2 * len(front))
        return True

    def _cut(self, size: int) -> list[Entry]:
        """Shorten `front` to about `size` entries, with its first instant complete; return the rest."""
        front = self.front
        horizon = max(front[size][0], front[0][0] + 1)
        i = bisect_left(front, (horizon,))
        rest = front[i:]
        if rest:
            del front[i:]
            self.horizon = horizon
        return rest

    def spill(self) -> None:
        """Move the later entries of a long `front` to the pages."""
        front = self.front
        if not self._pages:
            # For the first pages, choose a width that suits the entries in `front`.
            span = front[-1][0] - front[0][0]
            self._shift = (span * _PAGE_SIZE // len(front)).bit_length()
        for entry in self._cut(_FRONT_SIZE):
            self.add(entry)
        self.front_limit = max(2 * _FRONT_SIZE, 2 * len(front))

    def _refile(self, shift: int) -> None:
        """Distribute the entries outside `front` over new pages of 2**shift ns."""
        self._shift = shift = max(shift, 0)
        pages: dict[int, list[Entry]] = {}
        for page in self._pages.values():
            for entry in page:
                pages.setdefault(entry[0] >> shift, []).append(entry)
        self._pages = pages
        self._numbers = list(pages)
        heapify(self._numbers)
        self._waste, self._waste_limit = 0, 1000 + len(self)

    def _check(self) -> None:
        """Raise AssertionError if an invariant does not hold."""
        assert self.front == sorted(self.front)
        assert not self.front or self.front[-1][0] < self.horizon
        assert sorted(self._numbers) == sorted(self._pages)
        for number, page in self._pages.items():
            assert all(entry[0] >= self.horizon and entry[0] >> self._shift == number for entry in page)
