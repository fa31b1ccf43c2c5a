"""Things of a user's modules, by name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


def names_code(value: Any) -> str | None:
    """The first text in `value`, lists and tables included, that could be a ``module:attribute``; else None.

    For values of files, before they become parameters: a file is not asked what to import.
    """
    if isinstance(value, str):
        return value if ":" in value else None
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    elif not isinstance(value, (list, tuple)):
        return None
    return next((text for text in map(names_code, value) if text is not None), None)


def kept_name(thing: Any) -> str:
    """The ``module:name`` by which files keep a class or function; of gridsim's own, the public one."""
    return current_name(f"{thing.__module__}:{thing.__qualname__}")


def current_name(kept: str) -> str:
    """A name that a file keeps, as it is today: earlier versions said in which module of gridsim it was."""
    package, _, name = kept.partition(":")
    return f"gridsim:{name}" if package.startswith("gridsim.") else kept


def imported(name: str) -> Any:
    """What ``module:attribute`` names.

    Modules of the current directory are found too, after installed ones.  Raises whatever goes wrong.
    """
    module, _, attribute = name.partition(":")
    _look_here()
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def located(module: str) -> str | None:
    """The file of the module that `imported` would take for one of this name; None if there is none.

    The module is not imported, packages around it are.
    """
    _look_here()
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # whatever finding raises
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _look_here() -> None:
    """Let modules of the current directory be found."""
    with suppress(FileNotFoundError):  # one that is gone has no modules
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
