"""The targets, a module each.

A target has ``one(data: bytes) -> None``, which raises on a finding, and ``seeds() -> Iterable[bytes]``:
small valid inputs, and known nasty ones.  It may have ``DICTIONARY``, words (bytes) to try, and
``mutate(data, max_size, seed) -> bytes``, a mutator of its own.  Nothing is kept from one execution to the
next.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any


@cache
def names() -> tuple[str, ...]:
    """Of all targets, sorted."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))


def load(name: str) -> Any:
    """The target's module."""
    return import_module(f"{__name__}.{name}")
