"""What a state of the message core must be like; see `gridcore.common.state`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import LATEST, State


def read_nodes(
    state: Any, nodes: int, machines: int, applications: int, names: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state; `names` is the number of names of timers.

    Raises ValueError naming the entry that cannot be.
    """
    read = State(state)
    limits: dict[str, tuple[int, ...]] = {
        "timers": (LATEST * 2, LATEST, nodes - 1, names - 1),
        "known": (nodes - 1, applications - 1),
        "held": (nodes - 1, applications - 1, LATEST),
        "random": (nodes - 1, LATEST),
    }
    found = {name: read.array(name, np.int64, (None, len(most)), 0) for name, most in limits.items()}
    for name, most in limits.items():
        if (found[name] > np.array(most)).any():
            raise ValueError(f"state[{name!r}] must be at most {list(most)}")
    found["values"] = read.array("values", np.float64, (len(found["timers"]),))
    for name, count in (("reorder", machines), ("start", nodes), ("idle", machines)):
        found[name] = read.array(name, np.int64, (None,), 0, count - 1)
    return found
