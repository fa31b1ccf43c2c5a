"""How long a test may take: s of a processor, since others use it, too; s of the clock, where it waits."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS, PATIENCE = 20, 120
_begun = [0.0, 0.0]


def begin() -> None:
    """Time is counted from now on."""
    _begun[:] = time.process_time(), time.monotonic()
    signal.alarm(SECONDS)


def _look(*_: Any) -> None:
    processor, clock = _begun
    if time.process_time() - processor >= SECONDS or time.monotonic() - clock >= PATIENCE:
        raise TimeoutError(f"took more than {SECONDS} s of a processor, or {PATIENCE} s")
    signal.alarm(1)


@contextmanager
def bounded() -> Iterator[None]:
    """What is done here in more time raises TimeoutError."""
    handler = signal.signal(signal.SIGALRM, _look)
    begin()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
