"""References to arrays: how a table in an archive names the arrays that are kept beside it.

A reference is a table itself, ``{array = NAME}``, or ``{array = NAME, counts = NAME}`` for a list of rows of
different lengths.  The name of an array is the SHA-256 of its content, so that tables with equal references
have equal lists.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.support.arguments import short_repr
from gridsim.support.columns import (
    ArrayColumn,
    FloatColumn,
    IntColumn,
    RaggedColumn,
    TextColumn,
    content_name,
    is_text,
)
from gridsim.support.memory import OF_APPLICATION, check_room

#: A list of more numbers or texts is kept as an array; a shorter one stays in the table, for people to read.
INLINE = 100

#: Name of an array -> the array.
Arrays = Mapping[str, NDArray[Any]]

#: Least bytes of memory for a number of a row of a list, and for each entry of another list: all that is made
#: of lists, of applications or machines.
_OF_NUMBER, _OF_ENTRY = 40, OF_APPLICATION

#: The keys of a reference, one for each of ``ArrayColumn.arrays``.
_KEYS = ("array", "counts")
#: Type of the entries of a list, or kinds of the dtypes of arrays -> type of column.
_OF_ENTRIES: dict[type, type[ArrayColumn]] = {float: FloatColumn, int: IntColumn, str: TextColumn}
_OF_KINDS: dict[str, type[ArrayColumn]] = {
    "f": FloatColumn,
    "i": IntColumn,
    "U": TextColumn,
    "fi": RaggedColumn,
}


def with_references(value: Any, arrays: MutableMapping[str, NDArray[Any]]) -> Any:
    """Return a table with references in place of its long lists, and add these to `arrays`."""
    if isinstance(value, dict):
        return {key: with_references(entry, arrays) for key, entry in value.items()}
    column = value if isinstance(value, ArrayColumn) else _column(value)
    if column is None or len(column.arrays[0]) <= INLINE:
        return value
    names = column.names
    arrays.update(zip(names, column.arrays, strict=True))
    return dict(zip(_KEYS, names, strict=False))


def _column(value: Any) -> ArrayColumn | None:
    """Return the column of a list; None for other values, and lists of which no column has all entries."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    types = set(map(type, value))
    if types <= {list, tuple}:
        return RaggedColumn.of(value) if set(map(type, chain.from_iterable(value))) == {float} else None
    return _OF_ENTRIES[types.pop()].of(value) if len(types) == 1 and types <= _OF_ENTRIES.keys() else None


def with_columns(value: Any, arrays: Arrays, path: str, file: str) -> Any:
    """Return a table with columns in place of references to `arrays`, which are those of `file`.

    Raises ScenarioError naming `path`, the configuration path of the table, for an array that is not there or
    does not fit, and OutOfMemory for one that is too long for what is made of it.
    """
    if not isinstance(value, dict):
        return value
    if not _is_reference(value):
        return {key: with_columns(entry, arrays, f"{path}.{key}", file) for key, entry in value.items()}
    keys, parts = _KEYS[: len(value)], []
    for key in keys:
        array = arrays.get(value[key]) if isinstance(value[key], str) else None
        if array is None:
            raise ScenarioError(
                f"{path} must be a list, got a reference to the array {short_repr(value[key])}, which is "
                f"not in {file}; Scenario.save writes lists out"
            )
        parts.append(array)
    check_room(path, len(parts[-1]), "entries", _OF_ENTRY)
    check_room(path, len(parts[0]), "numbers", _OF_NUMBER)
    kind = _OF_KINDS.get("".join(array.dtype.kind for array in parts))
    try:
        if kind is None:
            raise ValueError(f"no list has arrays of {', '.join(str(array.dtype) for array in parts)}")
        return kind(*parts)
    except ValueError as error:
        raise ScenarioError(f"{path} must refer to arrays that fit: {error}") from error


def has_references(value: Any) -> bool:
    """Whether a table, or one in it, is a reference."""
    if not isinstance(value, dict):
        return False
    return _is_reference(value) or any(map(has_references, value.values()))


def _is_reference(table: dict[str, Any]) -> bool:
    return table.keys() in (set(_KEYS[:1]), set(_KEYS))


def check_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that was read from an archive, read-only and in the machine's byte order.

    Raises ValueError for other than a list of 64-bit numbers or texts, and for content that is not `name`'s.
    """
    kind, size = array.dtype.kind, array.dtype.itemsize
    if array.ndim != 1 or not (kind == "U" or (kind in "fi" and size == 8)):
        raise ValueError(f"array {name} is {array.ndim}-d {array.dtype}, expected a list of numbers or texts")
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    if kind == "U" and not is_text(array):
        raise ValueError(f"array {name} holds what is no character")
    if content_name(array) != name:
        raise ValueError(f"array {name} has other content than its name says")
    array.flags.writeable = False
    return array
