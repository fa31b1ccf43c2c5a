"""Limit of the time for which idle threads of numpy's OpenBLAS spin and keep cores busy."""

from __future__ import annotations

import os

_TIMEOUT_VARIABLE = "OPENBLAS_THREAD_TIMEOUT"


def sleeping_thread_variables() -> dict[str, str]:
    """Return environment variables that make idle threads of OpenBLAS sleep at once.

    By default each thread keeps a core busy for 20 ms or more after numpy is imported.  The number of
    threads, on which floating-point sums may depend, is unchanged.  A value set by the user is kept.
    """
    return {_TIMEOUT_VARIABLE: os.environ.get(_TIMEOUT_VARIABLE, "4")}  # 2**4 cycles, the minimum
