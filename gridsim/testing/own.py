"""Tells a scheduler's own code from that of Python, gridsim and installed packages."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

import gridcore
import gridsim
from gridsim.scheduling.contract import Scheduler

#: Where code lies that is nobody's own.
_LIBRARIES = tuple(
    {
        os.path.join(os.path.abspath(folder), "")
        for folder in (
            *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            *(os.path.dirname(package.__file__ or "") for package in (gridsim, gridcore)),
        )
    }
)
#: Packages whose classes a scheduler derives from without being theirs.
_BASES = frozenset({"gridsim", "gridcore", "builtins", "msgspec", "abc", "typing"})
#: The module in whose frames a run begins; what lies outside of them called the check.
_RUNS = "gridsim.simulation.simulate"
#: Modules that only hand on what somebody asks them.
_HAND_ON = frozenset({"os", "collections.abc", "_collections_abc", "time", "datetime", __name__})


class Own:
    """The code of a scheduler: what lies in its package, and all that is not installed."""

    def __init__(self, scheduler: Scheduler) -> None:
        classes = [*type(scheduler).__mro__, *getattr(getattr(scheduler, "policy", None), "__mro__", ())]
        self.roots = {each.__module__.partition(".")[0] for each in classes} - _BASES

    def has(self, module: str, file: str) -> bool:
        """Return whether the code of a module, which lies in `file`, is the scheduler's own."""
        root = module.partition(".")[0]
        if root in self.roots:
            return True
        return root not in _BASES and not file.startswith((*_LIBRARIES, "<")) and bool(file)

    def modules(self) -> Iterator[ModuleType]:
        """Iterate over the loaded modules that are the scheduler's own."""
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and self.has(name, getattr(module, "__file__", None) or ""):
                yield module

    def asks(self, frame: FrameType | None) -> bool:
        """Return whether own code called the function of `frame`, itself or through `os` and the like."""
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name not in _HAND_ON:
                return self.has(name, frame.f_code.co_filename)
            frame = frame.f_back
        return False

    def acts(self, frame: FrameType | None) -> CodeType | None:
        """Return the innermost own code that runs in `frame` or called it, in a run; else None."""
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name == _RUNS:
                return None
            if self.has(name, frame.f_code.co_filename):
                return frame.f_code
            frame = frame.f_back
        return None

    def rebind(self, replaced: dict[Any, Any]) -> list[tuple[ModuleType, str, Any]]:
        """Replace functions in own modules that imported them by name, and return what was replaced where."""
        found = []
        for module in self.modules():
            for name, value in list(vars(module).items()):
                try:
                    new = replaced.get(value)
                except TypeError:  # it has no hash
                    continue
                if new is not None:
                    found.append((module, name, value))
                    setattr(module, name, new)
        return found
