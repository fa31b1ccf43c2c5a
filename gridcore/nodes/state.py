"""Declaration of the state of the message core, as described in `gridcore.common.state`."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

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
    refuse,
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
    numbers = rows[:, 0]
    refuse("payloads", np.diff(numbers, prepend=-1) <= 0, "in ascending order of number")
    payloads: list[NDArray[Any] | None] = [None] * (int(numbers[-1]) + 1 if len(numbers) else 0)
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
    if at != len(contents):
        raise ValueError(f"state['contents'] must have {at} numbers, got {len(contents)}")
    return payloads, [number for number, array in enumerate(payloads) if array is None]


#: A local message: its instant (ns), its number in the order of sending, its node, its kind, and itself.
LocalMessage: TypeAlias = "tuple[int, int, int, Any, Any]"


def local_entries(
    messages: list[LocalMessage],
    number: int,
    kinds: list[Any],
    arrays: list[NDArray[Any] | None],
) -> tuple[dict[str, Any], list[NDArray[Any] | None]]:
    """Return local messages as entries of a state, and all arrays in messages, those of `arrays` first.

    ``local`` has the columns time, number, node and number of the kind; ``local_fields`` has the fields of
    all messages: a number, the bits of a float, or the number of an array.

    Parameters
    ----------
    number
        The number of local messages sent so far.
    kinds
        The local kinds (`MessageKind`).
    arrays
        The arrays in other messages, by number.
    """
    arrays = list(arrays)
    rows, fields = [], []
    for time, order, node, kind, message in sorted(messages, key=lambda entry: entry[1]):
        rows.append((time, order, node, kinds.index(kind)))
        for name, code in zip(kind.fields, kind.type_codes, strict=True):
            value = getattr(message, name)
            if code == 2:
                arrays.append(value)
                value = len(arrays) - 1
            fields.append(int(np.float64(value).view(np.int64)) if code == 1 else value)
    return {
        "local": np.array(rows, np.int64).reshape(-1, 4),
        "local_fields": np.array(fields, np.int64),
        "local_number": number,
    }, arrays


def read_local(state: Any, kinds: list[Any], nodes: int, payloads: Any) -> tuple[list[LocalMessage], int]:
    """Return the local messages of a state, and the number of local messages sent so far.

    Parameters
    ----------
    payloads
        The arrays in messages (`Payloads`), of which those of local messages are removed.

    Raises
    ------
    ValueError
        If the entries are invalid.
    """
    entries = read(state, LOCAL, nodes=nodes, kinds=len(kinds))
    fields, at = entries["local_fields"], 0
    messages = []
    for time, number, node, index in entries["local"].tolist():
        kind = kinds[index]
        if at + kind.n > len(fields):
            raise ValueError(
                f"state['local_fields'] must have at least {at + kind.n} numbers, got {len(fields)}"
            )
        message = kind.type()
        message.sender = node
        for name, code, value in zip(kind.fields, kind.type_codes, fields[at : at + kind.n], strict=True):
            if code == 2:
                setattr(message, name, payloads.fetch(int(value)))
            else:
                setattr(message, name, float(value.view(np.float64)) if code else int(value))
        at += kind.n
        messages.append((time, number, node, kind, message))
    return messages, entries["local_number"]
