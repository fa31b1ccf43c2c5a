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
        "held": (nodes - 1, applications - 1, LATEST),
        "random": (nodes - 1, LATEST),
        "turns": (LATEST * 2, LATEST, nodes - 1),
        "completed": (machines - 1, applications - 1, LATEST),
    }
    found = {name: read.array(name, np.int64, (None, len(most)), 0) for name, most in limits.items()}
    for name, most in limits.items():
        if (found[name] > np.array(most)).any():
            raise ValueError(f"state[{name!r}] must be at most {list(most)}")
    found["values"] = read.array("values", np.float64, (len(found["timers"]),))
    for name, count in (("reorder", machines), ("start", nodes), ("end", machines), ("idle", machines)):
        found[name] = read.array(name, np.int64, (None,), 0, count - 1)
    return found


def payload_entries(payloads: list[NDArray[Any] | None]) -> dict[str, NDArray[Any]]:
    """Return the arrays in messages as entries of a state.

    payloads : by number, int64 or float64 of up to two dimensions; None for numbers that are not in use.

    Columns of ``payloads``: number, whether it is of floats, dimensions, and the length of each.
    """
    there = [(number, array) for number, array in enumerate(payloads) if array is not None]
    rows = [
        (number, array.dtype == np.float64, array.ndim, *(*array.shape, 1, 1)[:2]) for number, array in there
    ]
    contents = [np.ascontiguousarray(array).reshape(-1).view(np.int64) for _, array in there]
    return {
        "payloads": np.array(rows, np.int64).reshape(-1, 5),
        "contents": np.concatenate([np.zeros(0, np.int64), *contents]),
    }


def read_payloads(state: Any) -> tuple[list[NDArray[Any] | None], list[int]]:
    """Return the arrays in messages by number, and the numbers that are not in use.

    Raises ValueError for entries that `payload_entries` cannot have returned.
    """
    read = State(state)
    rows = read.array("payloads", np.int64, (None, 5), 0)
    contents = read.array("contents", np.int64, (None,))
    numbers = rows[:, 0]
    if (np.diff(numbers) <= 0).any() or (rows[:, 1:3] > (1, 2)).any() or (numbers > 2**31).any():
        raise ValueError("state['payloads'] must be of ascending numbers, with at most two dimensions")
    found: list[NDArray[Any] | None] = [None] * (int(numbers[-1]) + 1 if len(numbers) else 0)
    at = 0
    for number, real, dimensions, *lengths in rows.tolist():
        shape = tuple(lengths[:dimensions])
        size = lengths[0] * lengths[1] if dimensions == 2 else lengths[0] if dimensions else 1
        if size > len(contents) - at:
            raise ValueError(f"state['contents'] must have {size} numbers for payload {number}")
        array = contents[at : at + size].view(np.float64 if real else np.int64).reshape(shape)
        array.flags.writeable = False
        found[number] = array
        at += size
    if at != len(contents):
        raise ValueError(f"state['contents'] must have {at} numbers, got {len(contents)}")
    return found, [number for number, array in enumerate(found) if array is None]
