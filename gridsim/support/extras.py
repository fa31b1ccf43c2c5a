"""Modules of an extra: imported when first needed, or one line that says what to install."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from gridsim.support.memory import check_addresses

#: Bytes of addresses that a library takes as it is loaded and begins its threads.  With fewer these do not
#: end well: OpenBLAS, which SciPy brings, tries again for ever, and Arrow crashes.
_ADDRESSES = {"scipy.stats": 400_000_000, "pyarrow": 400_000_000}


class MissingExtra(ImportError):
    """A module of an extra is not installed."""


def need(module: str, extra: str, what: str) -> Any:
    """`module`, imported, which `what` needs and `extra` installs.

    Raises MissingExtra (an ImportError) if it is not installed, OutOfMemory where a limit of addresses leaves
    too few for it; one that is installed but cannot be imported raises what it raises.
    """
    package = module.partition(".")[0]
    for name in (package, module):
        if name in _ADDRESSES and name not in sys.modules:
            check_addresses(package, _ADDRESSES[name])
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(f'{what} needs {package}: pip install "gridcore[{extra}]"') from error
