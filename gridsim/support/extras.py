"""Import of optional modules (extras) when they are first needed, or an error that says what to install."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from gridsim.support.memory import check_addresses

#: Bytes of address space that a library takes when it is loaded and starts its threads.  With less, OpenBLAS,
#: which SciPy brings, tries again for ever, and Arrow crashes.
_ADDRESSES = {"scipy.stats": 400_000_000, "scipy.optimize": 400_000_000, "pyarrow": 400_000_000}


class MissingExtra(ImportError):
    """A module of an extra is not installed."""


def need(module: str, extra: str, what: str) -> Any:
    """Import and return `module`, which `what` needs and the extra `extra` installs.

    Raises MissingExtra (an ImportError) if it is not installed, and OutOfMemory if the limit of address space
    leaves too little for it.  A module that is installed but cannot be imported raises its own error.
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
        raise MissingExtra(f'{what} needs {package}: pip install "gridsched[{extra}]"') from error
