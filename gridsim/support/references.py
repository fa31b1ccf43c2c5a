"""References from a table in an archive to the arrays stored beside it.

A reference is a table ``{array = NAME}``, or ``{array = NAME, counts = NAME}`` for a list of rows of
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
    NumbersColumn,
    RaggedColumn,
    TextColumn,
    content_name,
    is_valid_unicode,
)
from gridsim.support.memory import APPLICATION_BYTES, check_fits

#: Lists with more numbers or strings than this are stored as arrays; shorter ones stay readable in the table.
MAX_INLINE = 100

#: Name of an array -> the array.
Arrays = Mapping[str, NDArray[Any]]

#: Lower bounds of the memory (bytes) per number in a list of lists, and per entry of any other list, which
#: becomes an application or a machine.
_NUMBER_BYTES, _ENTRY_BYTES = 40, APPLICATION_BYTES

#: The keys of a reference, one for each of ``ArrayColumn.arrays``.
_KEYS = ("array", "counts")
#: Type of the entries of a list, or kinds of the dtypes of arrays -> type of column.
_COLUMN_OF_TYPE: dict[type, type[ArrayColumn]] = {float: FloatColumn, int: IntColumn, str: TextColumn}
_COLUMN_OF_DTYPE: dict[str, type[ArrayColumn]] = {
    "f": FloatColumn,
    "i": IntColumn,
    "U": TextColumn,
    "fi": RaggedColumn,
    "ii": NumbersColumn,
}


def with_references(value: Any, arrays: MutableMapping[str, NDArray[Any]]) -> Any:
    """Return a table with references in place of long lists, and add these lists to `arrays` as arrays."""
    if isinstance(value, dict):
        return {key: with_references(entry, arrays) for key, entry in value.items()}
    column = value if isinstance(value, ArrayColumn) else _column(value)
    if column is None or len(column.arrays[0]) <= MAX_INLINE:
        return value
    names = column.names
    arrays.update(zip(names, column.arrays, strict=True))
    return dict(zip(_KEYS, names, strict=False))


def _column(value: Any) -> ArrayColumn | None:
    """Return a list as a column; None for other values and for lists with entries of several types."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    types = set(map(type, value))
    if types <= {list, tuple}:
        return RaggedColumn.of(value) if set(map(type, chain.from_iterable(value))) == {float} else None
    return (
        _COLUMN_OF_TYPE[types.pop()].of(value)
        if len(types) == 1 and types <= _COLUMN_OF_TYPE.keys()
        else None
    )


def with_columns(value: Any, arrays: Arrays, path: str, file: str) -> Any:
    """Return a table with columns in place of references to `arrays`.

    Parameters
    ----------
    arrays
        Arrays of `file`, by name.
    path
        Configuration path of the table, for errors.

    Raises
    ------
    ScenarioError
        If an array is missing or has the wrong type.
    OutOfMemory
        If the objects made from an array would not fit into memory.
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
                f"missing from {file}; Scenario.save writes complete lists"
            )
        parts.append(array)
    check_fits(path, len(parts[-1]), "entries", _ENTRY_BYTES)
    check_fits(path, len(parts[0]), "numbers", _NUMBER_BYTES)
    kind = _COLUMN_OF_DTYPE.get("".join(array.dtype.kind for array in parts))
    try:
        if kind is None:
            raise ValueError(
                f"arrays of a list must have a known type, got {', '.join(str(part.dtype) for part in parts)}"
            )
        return kind(*parts)
    except ValueError as error:
        raise ScenarioError(f"{path} must refer to arrays of a list: {error}") from error


def has_references(value: Any) -> bool:
    """Return whether a table is or contains a reference."""
    if not isinstance(value, dict):
        return False
    return _is_reference(value) or any(map(has_references, value.values()))


def _is_reference(table: dict[str, Any]) -> bool:
    return table.keys() in (set(_KEYS[:1]), set(_KEYS))


def check_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that was read from an archive, read-only and in the machine's byte order.

    Raises
    ------
    ValueError
        If it is not a list of 64-bit numbers or strings, or if its content does not match `name`.
    """
    kind, size = array.dtype.kind, array.dtype.itemsize
    if array.ndim != 1 or not (kind == "U" or (kind in "fi" and size == 8)):
        raise ValueError(f"array {name} must be 1-d int64, float64 or str, got {array.ndim}-d {array.dtype}")
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    if kind == "U" and not is_valid_unicode(array):
        raise ValueError(f"array {name} must contain only valid Unicode characters")
    if (content := content_name(array)) != name:
        raise ValueError(f"array {name} must have the SHA-256 that its name states, got {content}")
    array.flags.writeable = False
    return array
