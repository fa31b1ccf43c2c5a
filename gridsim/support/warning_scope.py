"""Warnings that are issued once, however often the work of one command or one study meets their reason."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

_ISSUED: ContextVar[set[tuple[type[Warning], str]] | None] = ContextVar("issued", default=None)


class WarningScope:
    """Issue each warning of `warn` once in all blocks of this object, or of one in whose blocks they lie."""

    def __init__(self) -> None:
        self._seen: set[tuple[type[Warning], str]] = set()
        self._tokens: list[Token[set[tuple[type[Warning], str]] | None]] = []

    def __enter__(self) -> None:
        outer = _ISSUED.get()
        self._tokens.append(_ISSUED.set(self._seen if outer is None else outer))

    def __exit__(self, *_: object) -> None:
        _ISSUED.reset(self._tokens.pop())


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Issue a warning as `warnings.warn` does, unless a block of `WarningScope` has seen the same one."""
    seen = _ISSUED.get()
    if seen is not None:
        if (category, message) in seen:
            return
        seen.add((category, message))
    warnings.warn(message, category, stacklevel=stacklevel + 1)


@contextmanager
def collect_warnings() -> Iterator[list[tuple[type[Warning], str]]]:
    """Collect the warnings issued meanwhile, if this is a worker process: there the user cannot see them."""
    found: list[tuple[type[Warning], str]] = []
    own = multiprocessing.parent_process() is not None
    if not own or threading.current_thread() is not threading.main_thread():
        yield found
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [(entry.category, str(entry.message)) for entry in caught]
