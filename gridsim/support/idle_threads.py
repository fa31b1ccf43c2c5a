"""How long the threads of numpy's OpenBLAS wait busily, which is nothing that a run needs."""

from __future__ import annotations

import os

_TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"


def asleep() -> dict[str, str]:
    """Return the variables of the environment with which idle threads of OpenBLAS sleep at once.

    By default all of them keep a core busy for 20 ms or more after numpy is imported.  Their number, on which
    sums may depend, stays the same.  What the user has set is kept.
    """
    return {_TIMEOUT: os.environ.get(_TIMEOUT, "4")}  # 2**4 cycles, the least
