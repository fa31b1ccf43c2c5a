"""Runs node programs that share nothing: each node has a module of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.local.adapter import LocalScheduler
from gridsim.testing.own import Own


def can_be_isolated(scheduler: Scheduler) -> bool:
    """Return whether the scheduler has node programs of a module that can be imported again."""
    kind = type(scheduler)
    if not isinstance(scheduler, LocalScheduler) or "interpreted" not in scheduler.node_forms:
        return False
    roots = Own(scheduler).roots
    if kind.__module__.partition(".")[0] not in roots or kind.__module__ == "__main__":
        return False
    try:
        return _copied(scheduler, Own(scheduler)) is not None
    except Exception:  # the module cannot be imported twice
        return False


@contextmanager
def isolated(scheduler: Scheduler) -> Iterator[None]:
    """Let each node of `scheduler` be made by a fresh copy of its modules, also after a failure.

    So nodes share neither attributes of classes nor variables of modules, and none outlasts a failure.
    """
    kind: Any = type(scheduler)
    own, before = Own(scheduler), kind.__dict__.get("program")

    def program(self: Any, node: int) -> Any:
        made = _copied(self, own)
        assert made is not None
        if made.program is LocalScheduler.program:
            return made.policy(self)
        return made.program(self, node)

    kind.program = program
    try:
        yield
    finally:
        if before is None:
            del kind.program
        else:
            kind.program = before


def _copied(scheduler: Scheduler, own: Own) -> Any:
    """Return the class of `scheduler` from a fresh copy of its modules; None if it is local to a function."""
    kind = type(scheduler)
    mine = {module.__name__: module for module in own.modules() if _reloads(module, own)}
    for name in mine:
        del sys.modules[name]
    try:
        found: Any = import_module(kind.__module__)
        for name, module in mine.items():
            _share_compiled(module, sys.modules.get(name))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in own.roots]:
            if name not in mine:
                del sys.modules[name]
        sys.modules.update(mine)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _reloads(module: ModuleType, own: Own) -> bool:
    return module.__name__.partition(".")[0] in own.roots


def _share_compiled(module: ModuleType, copy: ModuleType | None) -> None:
    """Let a copy of a module use the functions that Numba has compiled, rather than compile them again."""
    for name, value in vars(module).items() if copy is not None else ():
        if type(value).__module__.startswith("numba."):
            setattr(copy, name, value)
