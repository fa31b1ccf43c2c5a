"""A calendar queue of pending entries, ordered by time; its pages are sorted only when their time comes.

A heap of 100,000 entries spends its time waiting for memory: each push and pop visits a dozen tuples that
are scattered in memory.  Here an entry that is not due before the *horizon* is appended, unsorted, to the
page of its time, and is not looked at again until that page is next.  Then the page is sorted at C speed
and becomes the short list `Calendar.near`, which is read from the front.  While few entries are pending
there are no pages, and all entries are in `near`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

#: (time, rank, ...): entries with equal times and ranks must be comparable by what follows.
Entry = tuple[Any, ...]

# Size that `near` should have: sorting, searching and cutting such a list takes a few cache misses' time.
_NEAR = 256
# How many entries a page should hold, and below how many a page is not worth its overhead.
_PAGE, _THIN = 64, 4
# The horizon while there are no pages: every entry is due before it.
_NO_HORIZON = 1 << 64


class Calendar:
    """A queue of entries (time, rank, ...) with integer times, in order.

    `near` is the sorted list of all entries due before `horizon`, so that all entries of one instant are on
    the same side.  The owner of the calendar may take entries off the front of `near`, and calls `turn` when
    it is empty.
    """

    def __init__(self) -> None:
        self.near: list[Entry] = []
        self.horizon = _NO_HORIZON
        #: The length above which `near` must be shortened by `spill`.
        self.room = 2 * _NEAR
        self._pages: dict[int, list[Entry]] = {}
        self._numbers: list[int] = []
        # A page holds the times with one value of time >> shift.  The width is changed when an unsuitable
        # one has wasted about as much work as filing all entries again costs.  So filing again never takes
        # more than a constant share of the time.
        self._shift = 0
        self._waste = 0
        self._patience = 0

    def __len__(self) -> int:
        return len(self.near) + sum(map(len, self._pages.values()))

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all entries, in no particular order."""
        yield from self.near
        for page in self._pages.values():
            yield from page

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        time = entry[0]
        if time < self.horizon:
            near = self.near
            insort(near, entry)
            if len(near) > self.room:
                self.spill()
        else:
            self.file(entry)

    def file(self, entry: Entry) -> None:
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
            i = bisect_left(self.near, entry)
            found = i < len(self.near) and self.near[i] == entry
            if found:
                del self.near[i]
            return found
        try:
            self._pages[entry[0] >> self._shift].remove(entry)
        except (KeyError, ValueError):
            return False
        return True

    def turn(self) -> bool:
        """Fill `near` from the next page if it is empty; return False if nothing is pending."""
        near = self.near
        while not near:
            if not self._numbers:
                self.horizon = _NO_HORIZON
                return False
            number = heappop(self._numbers)
            near += self._pages.pop(number)
            near.sort()
            self.horizon = number + 1 << self._shift
            if len(near) > _NEAR:
                # The rest becomes a page again; sorting it later is cheap, as it is mostly in order.
                rest = self._cut(_NEAR)
                if rest:
                    self._pages[number] = rest
                    heappush(self._numbers, number)
                    self._waste += len(rest)
                    if self._waste > self._patience:
                        self._refile(self._shift - (len(rest) // _PAGE).bit_length())
            elif len(near) < _THIN:
                self._waste += 1
                if self._waste > self._patience:
                    self._refile(self._shift + 3)
        self.room = max(2 * _NEAR, 2 * len(near))
        return True

    def _cut(self, size: int) -> list[Entry]:
        """Keep about `size` entries in `near`, and at least all of the first instant; return the rest."""
        near = self.near
        horizon = max(near[size][0], near[0][0] + 1)
        i = bisect_left(near, (horizon,))
        rest = near[i:]
        if rest:
            del near[i:]
            self.horizon = horizon
        return rest

    def spill(self) -> None:
        """Move the later part of a long `near` to the pages."""
        near = self.near
        if not self._pages:
            # These are the first pages: choose a width that suits the entries in `near`.
            span = near[-1][0] - near[0][0]
            self._shift = (span * _PAGE // len(near)).bit_length()
        for entry in self._cut(_NEAR):
            self.add(entry)
        self.room = max(2 * _NEAR, 2 * len(near))

    def _refile(self, shift: int) -> None:
        """File all entries that are not in `near` again, on pages 2**shift ns wide."""
        self._shift = shift = max(shift, 0)
        pages: dict[int, list[Entry]] = {}
        for page in self._pages.values():
            for entry in page:
                pages.setdefault(entry[0] >> shift, []).append(entry)
        self._pages = pages
        self._numbers = list(pages)
        heapify(self._numbers)
        self._waste, self._patience = 0, 1000 + len(self)

    def _check(self) -> None:
        """Raise AssertionError if an invariant does not hold."""
        assert self.near == sorted(self.near)
        assert not self.near or self.near[-1][0] < self.horizon
        assert sorted(self._numbers) == sorted(self._pages)
        for number, page in self._pages.items():
            assert all(entry[0] >= self.horizon and entry[0] >> self._shift == number for entry in page)
