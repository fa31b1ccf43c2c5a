"""Threads for functions that release the lock of the interpreter, such as those of zlib."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(
    function: Callable[[Item], Outcome], items: Iterable[Item], threads: int
) -> Iterator[Outcome]:
    """Iterate over the result of `function` for each item, in the order of the items.

    This thread takes the items, and at most `threads` results wait for it.  Without memory for a thread, this
    one calls the function.
    """
    if threads == 1:
        yield from map(function, items)
        return
    # imported here, since the import takes longer than a small task
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Outcome]] = deque()
        for item in items:
            try:
                pending.append(pool.submit(function, item))
            except RuntimeError:
                while pending:
                    yield pending.popleft().result()
                yield function(item)
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
