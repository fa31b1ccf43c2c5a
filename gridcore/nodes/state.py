"""Declaration of the state of the message core, as described in `gridcore.common.state`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.state import (
    INSTANT,
    LATEST,
    ArrayEntry,
    Entry,
    Limits,
    NumberEntry,
    TableEntry,
    read,
)

_NUMBER = NumberEntry(0, LATEST + 1)
_TIMER: Limits = (0, 2 * LATEST + 1)
#: The entries of the core's state, except those of messages and the board.
STATE: dict[str, Entry] = {
    **dict.fromkeys(("now", "events", "directs", "placed", "number", "turn_number"), _NUMBER),
    "pause_at": NumberEntry(0, 2 * LATEST + 1),
    "phase": NumberEntry(0, "phases"),
    "released": NumberEntry(0, "up_to_releases"),
    "timers": TableEntry({"time": _TIMER, "number": INSTANT, "node": (0, "nodes"), "name": (0, "names")}),
    "values": ArrayEntry(np.float64, ("timers",)),
    "fields": ArrayEntry(np.int64),
    "requests": ArrayEntry(np.int64, ("requesters",), (0, LATEST)),
    "turns": TableEntry({"time": _TIMER, "number": INSTANT, "node": (0, "nodes")}),
    "held": TableEntry({"node": (0, "nodes"), "application": (0, "applications"), "tasks": INSTANT}),
    "random": TableEntry({"node": (0, "nodes"), "drawn": INSTANT}),
    "completed": TableEntry(
        {"machine": (0, "machines"), "application": (0, "applications"), "tasks": INSTANT}
    ),
    "start": ArrayEntry(np.int64, limits=(0, "nodes")),
    **{name: ArrayEntry(np.int64, limits=(0, "machines")) for name in ("reorder", "end", "idle")},
}
APPLICATION_TIMERS: dict[str, Entry] = {
    "application_timers": TableEntry(
        {"time": _TIMER, "number": INSTANT, "application": (0, "applications"), "name": (0, "names")}
    ),
}
LOCAL: dict[str, Entry] = {
    "local": TableEntry({"time": _TIMER, "number": INSTANT, "node": (0, "nodes"), "kind": (0, "kinds")}),
    "local_fields": ArrayEntry(np.int64),
    "local_number": _NUMBER,
}
#: The types of the elements of arrays in messages, by their numbers in a state.
ARRAY_TYPES = tuple(
    map(np.dtype, (np.int64, np.float64, np.int16, np.uint16, np.int32, np.uint32, np.float32))
)
PAYLOADS: dict[str, Entry] = {
    "payloads": TableEntry(
        {
            **{"number": (0, 2**31 + 1), "type": (0, len(ARRAY_TYPES)), "dimensions": (1, 3)},
            **{"length": (0, None), "width": (0, None)},
        }
    ),
    "contents": ArrayEntry(np.int64),
}


def payload_entries(payloads: list[NDArray[Any] | None]) -> dict[str, NDArray[Any]]:
    """Return the arrays in messages as entries of a state.

    The columns of ``payloads``: number, type of the elements, number of dimensions, lengths.  ``contents``
    has the bytes of the arrays, each padded to whole words.

    Parameters
    ----------
    payloads
        The arrays by number, of `ARRAY_TYPES` and one or two dimensions; None for unused numbers.
    """
    numbered = [(number, array) for number, array in enumerate(payloads) if array is not None]
    rows = [
        (number, ARRAY_TYPES.index(array.dtype), array.ndim, *(*array.shape, 1)[:2])
        for number, array in numbered
    ]
    contents = []
    for _, array in numbered:
        words = np.zeros(-(-array.nbytes // 8), np.int64)
        words.view(np.uint8)[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        contents.append(words)
    return {
        "payloads": np.array(rows, np.int64).reshape(-1, 5),
        "contents": np.concatenate([np.zeros(0, np.int64), *contents]),
    }


def read_payloads(state: Any) -> tuple[list[NDArray[Any] | None], list[int]]:
    """Return the arrays in messages by number, and the unused numbers.

    Raises
    ------
    ValueError
        If the entries are invalid.
    """
    entries = read(state, PAYLOADS)
    rows, contents = entries["payloads"], entries["contents"]
    payloads: list[NDArray[Any] | None] = [None] * (int(rows[:, 0].max(initial=-1)) + 1)
    at = 0
    for number, of, dimensions, *lengths in rows.tolist():
        shape, dtype = lengths[:dimensions], ARRAY_TYPES[of]
        nbytes = math.prod(shape) * dtype.itemsize
        size = -(-nbytes // 8)
        if size > len(contents) - at:
            raise ValueError(
                f"state['contents'] must have {size} numbers for payload {number}, got {len(contents) - at}"
            )
        array = contents[at : at + size].view(np.uint8)[:nbytes].view(dtype).reshape(shape)
        array.flags.writeable = False
        payloads[number] = array
        at += size
    return payloads, [number for number, array in enumerate(payloads) if array is None]
