"""Compiled kernels for decentralized grid scheduling; reference implementations are in `tests.reference`.

Units: seconds, Mflop, Mflop/s, bytes, bytes/s; instants of the bulk kernels are int64 nanoseconds.

A kernel is loaded when it is first used: a run needs a few of them.  Their names are those of `__init__.pyi`.
"""

from importlib.util import find_spec

import lazy_loader

if find_spec("gridcore.queues.edf") is None:
    raise ImportError(
        "gridcore is not compiled in this folder: it is the source tree. Start Python in another folder, "
        "or compile in place with `pip install -e .`"
    )

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
