"""Targets of the fuzzer: a module each, or an entry `kernel-NAME` of the table in `kernels`.

A target has ``execute(data: bytes) -> None``, which raises an error on a finding, and
``seeds() -> Iterable[bytes]``: small valid inputs, and known difficult ones.  It may have ``DICTIONARY``,
words (bytes) to try, and its own mutator ``mutate(data, max_size, seed) -> bytes``.  Executions share no
state.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from kernels import KERNELS, WITHOUT_REFERENCE, reference_of, run, seeds


@cache
def names() -> tuple[str, ...]:
    """Return the sorted names of all targets."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted([*found, *(f"kernel-{name}" for name in KERNELS)]))


def load(name: str) -> Any:
    """Return the module of a target, or an object like one."""
    if name.startswith("kernel-"):
        kernel = name.removeprefix("kernel-")
        import_module(f"gridcore.{kernel}")  # imported now to be instrumented
        if kernel not in WITHOUT_REFERENCE:
            reference_of(kernel)
        return SimpleNamespace(
            __doc__=f"gridcore.{kernel}: agreement with its reference implementation, and robustness "
            "against any calls",
            seeds=seeds,
            execute=lambda data: run(kernel, data),
        )
    return import_module(f"{__name__}.{name}")
