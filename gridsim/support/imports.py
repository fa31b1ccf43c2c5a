"""Classes and functions of a user's modules, by name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


def names_code(value: Any) -> str | None:
    """Return the first text in `value`, also inside lists and tables, that could be a ``module:attribute``.

    Returns None if there is none.  Values from files are checked with it before they become parameters, as a
    file must not say what to import.
    """
    if isinstance(value, str):
        return value if ":" in value else None
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    elif not isinstance(value, (list, tuple)):
        return None
    return next((text for text in map(names_code, value) if text is not None), None)


def kept_name(thing: Any) -> str:
    """Return the ``module:name`` that files keep of a class or function; of gridsim's own, the public one."""
    return current_name(f"{thing.__module__}:{thing.__qualname__}")


def current_name(kept: str) -> str:
    """Return the present form of a name kept in a file; earlier versions kept the module inside gridsim."""
    package, _, name = kept.partition(":")
    return f"gridsim:{name}" if package.startswith("gridsim.") else kept


def imported(name: str) -> Any:
    """Import and return the object that ``module:attribute`` names.

    Modules of the current directory are found too, after installed ones.  Any error of the import is raised.
    """
    module, _, attribute = name.partition(":")
    _look_here()
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def located(module: str) -> str | None:
    """Return the file of the module that `imported` would import by this name; None if there is none.

    The module is not imported, but the packages that contain it are.
    """
    _look_here()
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # finding may raise anything
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _look_here() -> None:
    """Add the current directory to the end of the module search path."""
    with suppress(FileNotFoundError):  # the directory may have been removed
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
