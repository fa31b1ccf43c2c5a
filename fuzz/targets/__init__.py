"""The targets, a module each; those of the kernels, `kernel-NAME`, are a table (see `kernels`).

A target has ``one(data: bytes) -> None``, which raises on a finding, and ``seeds() -> Iterable[bytes]``:
small valid inputs, and known nasty ones.  It may have ``DICTIONARY``, words (bytes) to try, and
``mutate(data, max_size, seed) -> bytes``, a mutator of its own.  Nothing is kept from one execution to the
next.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from kernels import ALONE, KERNELS, reference_of, run, seeds


@cache
def names() -> tuple[str, ...]:
    """Of all targets, sorted."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted([*found, *(f"kernel-{name}" for name in KERNELS)]))


def load(name: str) -> Any:
    """The target's module, or what is like one."""
    if name.startswith("kernel-"):
        kernel = name.removeprefix("kernel-")
        import_module(f"gridcore.{kernel}")  # now, when modules are instrumented
        if kernel not in ALONE:
            reference_of(kernel)
        return SimpleNamespace(
            __doc__=f"gridcore.{kernel}: like its reference implementation, and whatever it is called with",
            seeds=seeds,
            one=lambda data: run(kernel, data),
        )
    return import_module(f"{__name__}.{name}")
