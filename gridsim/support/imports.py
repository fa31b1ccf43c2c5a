"""Import of classes and functions of user modules by name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


def first_code_name(value: Any) -> str | None:
    """Return the first string in `value` that could name code as ``module:attribute``; None if there is none.

    Strings inside lists and tables are searched too.  Values from files are checked before they become
    parameters, since a file must not cause an import.
    """
    if isinstance(value, str):
        return value if ":" in value else None
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    elif not isinstance(value, (list, tuple)):
        return None
    return next((text for text in map(first_code_name, value) if text is not None), None)


def stored_name(obj: Any) -> str:
    """Return the ``module:name`` by which files refer to a class or function of a user or of gridsim."""
    return current_name(f"{obj.__module__}:{obj.__qualname__}")


def current_name(name: str) -> str:
    """Replace ``gridsim.MODULE:NAME``, as stored by earlier versions, by ``gridsim:NAME``."""
    package, _, attribute = name.partition(":")
    return f"gridsim:{attribute}" if package.startswith("gridsim.") else name


def import_object(name: str) -> Any:
    """Import and return the object with the name ``module:attribute``.

    Installed modules take precedence over those of the current directory.  Errors of the import are raised.
    """
    module, _, attribute = name.partition(":")
    _append_current_directory()
    target: Any = importlib.import_module(module)
    for part in attribute.split("."):
        target = getattr(target, part)
    return target


def module_file(module: str) -> str | None:
    """Return the file of the module that `import_object` would import; None if there is none.

    The packages that contain the module are imported, the module itself is not.
    """
    _append_current_directory()
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # a finder or a parent package may raise anything
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _append_current_directory() -> None:
    """Add the current directory to the end of the module search path."""
    with suppress(FileNotFoundError):  # the directory may have been removed
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
