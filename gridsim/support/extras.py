"""Import of optional modules (extras) on first use, with an error that states what to install."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from gridsim.support.memory import check_address_space

#: Address space (bytes) that a library needs to load and to start its threads.  With less, OpenBLAS (part of
#: SciPy) retries forever, and Arrow crashes.
_ADDRESS_SPACE = {"scipy.stats": 400_000_000, "scipy.optimize": 400_000_000, "pyarrow": 400_000_000}


class MissingExtra(ImportError):
    """Error about a module of an extra that is not installed."""


def import_extra(module: str, extra: str, feature: str) -> Any:
    """Import and return `module`, which `feature` requires and `extra` installs.

    A module that is installed but cannot be imported raises its own error.

    Raises
    ------
    MissingExtra
        If the module is not installed (an ImportError).
    OutOfMemory
        If the process has too little address space left for the module.
    """
    package = module.partition(".")[0]
    for name in (package, module):
        if name in _ADDRESS_SPACE and name not in sys.modules:
            check_address_space(package, _ADDRESS_SPACE[name])
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(f'{feature} needs {package}: pip install "gridsched[{extra}]"') from error
