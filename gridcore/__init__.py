"""Compiled kernels for decentralized grid scheduling; reference implementations are in `tests.reference`.

Units: seconds, Mflop, Mflop/s, bytes, bytes/s; instants of the bulk kernels are int64 nanoseconds.

A kernel is imported on first use, since a run needs only a few.  `__init__.pyi` lists all of them.
"""

from importlib.util import find_spec

import lazy_loader

if find_spec("gridcore.queues.edf") is None:
    raise ImportError(
        "gridcore is not compiled in this folder, which is the source tree. Start Python in another folder, "
        "or compile in place with `pip install -e .`"
    )

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
