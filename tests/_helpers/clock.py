"""Time limits (s) of tests: processor time, and elapsed time for tests that wait."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS, PATIENCE = 20, 120
_start_times = [0.0, 0.0]


def begin() -> None:
    """Start to measure time."""
    _start_times[:] = time.process_time(), time.monotonic()
    signal.alarm(SECONDS)


def _check_limits(*_: Any) -> None:
    processor, clock = _start_times
    if time.process_time() - processor >= SECONDS or time.monotonic() - clock >= PATIENCE:
        raise TimeoutError(f"took more than {SECONDS} s of a processor, or {PATIENCE} s")
    signal.alarm(1)


@contextmanager
def limit_time() -> Iterator[None]:
    """Raise TimeoutError if the block exceeds a limit."""
    handler = signal.signal(signal.SIGALRM, _check_limits)
    begin()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
