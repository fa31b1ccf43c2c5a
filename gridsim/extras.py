"""Modules of an extra: imported when first needed, or one line that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingExtra(ImportError):
    """A module of an extra is not installed."""


def need(module: str, extra: str, what: str) -> Any:
    """`module`, imported, which `what` needs and `extra` installs.

    Raises MissingExtra (an ImportError) if it is not installed; one that is but cannot be imported raises
    what it raises.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(f'{what} needs {package}: pip install "gridcore[{extra}]"') from error
