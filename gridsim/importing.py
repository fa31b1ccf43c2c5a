"""Things of a user's modules, by name."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


def imported(name: str) -> Any:
    """What ``module:attribute`` names.

    Modules of the current directory are found too, after installed ones.  Raises whatever goes wrong.
    """
    module, _, attribute = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found
