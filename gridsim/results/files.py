"""Result files: a zip with one .npy member per column, ``tables/TABLE/COLUMN.npy``, and ``result.json``.

Long lists of the scenario are members ``scenario/SHA256.npy``.  ``numpy.load`` reads all .npy members.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gridsim.errors import GridSimError
from gridsim.results.archive import Reader, Writer, scenario_member
from gridsim.results.schema import check_columns
from gridsim.results.table import Table
from gridsim.support.files import atomic_file, open_regular
from gridsim.support.imports import current_name
from gridsim.support.references import Arrays

#: Version of the file format that is written, and versions that are read; version 1 has the scenario as one
#: text.
FORMAT = 2
_READABLE_FORMATS = (1, 2)
_METADATA = "result.json"
#: Maximum number of values in `_METADATA`; long data are in tables, and a scenario is one string.
_MAX_VALUES = 1 << 20


_NonNegative = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
#: A number of machines.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
#: Text that can be displayed unchanged within a line: printable ASCII.
_Word = Annotated[str, msgspec.Meta(pattern=r"\A[ -~]{0,200}\Z")]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _RowLimit(msgspec.Struct):
    """Provenance of a table of limited length: the number of rows kept, and the limit."""

    kept: _NonNegative = 0
    limit: _NonNegative = 0


class _Decisions(_RowLimit, kw_only=True):
    words: dict[str, tuple[str, str, str]]
    dropped: _NonNegative


class _Availability(msgspec.Struct):
    """Provenance of a run with machine failures, as `gridsim.simulation.outages.Outages` reports it."""

    at_start: _NonNegative
    never: _NonNegative
    mean: float


class _Messages(_RowLimit):
    left_out: _NonNegative = 0
    delays: dict[str, float] = {}
    machines: _Count | None = None  # only in files of earlier versions, for `Result.servers`


class _Diary(_RowLimit):
    left_out: _NonNegative = 0
    nodes: list[_NonNegative] | None = None


class _Provenance(msgspec.Struct):
    """Types of the provenance entries on which other code relies; the provenance may have further entries."""

    gridcore: _Word = ""
    python: _Word = ""
    implementation: _Word = ""
    numpy: _Word = ""
    system: _Word = ""
    seed: int = 0
    files: dict[str, _Sha256] = {}
    scenario: str = ""
    log: str = ""
    decisions: _Decisions | msgspec.UnsetType = msgspec.UNSET
    message_log: _Messages | msgspec.UnsetType = msgspec.UNSET
    availability: _Availability | msgspec.UnsetType = msgspec.UNSET
    diary: _Diary | msgspec.UnsetType = msgspec.UNSET
    servers: _Count = 0
    clock_seconds: float = 0.0
    events: _NonNegative = 0
    handler_calls: _NonNegative = 0
    nodes: str | None = None
    cohort_limit: _NonNegative | None = None
    threads: _NonNegative = 1
    processes: _NonNegative = 1
    wall_seconds: float = 0.0
    resumed: _NonNegative = 0
    peak_memory: _NonNegative | None = None


def write(
    path: str | os.PathLike[str],
    *,
    digest: str,
    tables: Mapping[str, Table],
    arrays: Arrays,
    **rest: Mapping[str, Any],
) -> None:
    """Write a result file, either completely or not at all.

    Parameters
    ----------
    arrays
        The arrays to which the scenario in the provenance refers.
    rest
        Plain values: the facts, the scheduler and the provenance.

    Raises
    ------
    GridSimError
        If `read` would reject the result.
    OSError
        If the file cannot be written.
    """
    metadata = {
        "format": FORMAT,
        "digest": digest,
        "tables": {name: list(table.keys()) for name, table in tables.items()},
        "arrays": list(arrays),
        **rest,
    }
    try:
        _check_displayable(rest)
        with atomic_file(path) as stream, Writer(stream) as archive:
            members = [(scenario_member(name), array) for name, array in arrays.items()]
            for name, table in tables.items():
                members += [(_member(name, key), column) for key, column in table.items()]
            archive.arrays(members)
            archive.json(_METADATA, metadata, _MAX_VALUES)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise unreadable_result_error(path, error) from error


def unreadable_result_error(path: str | os.PathLike[str], error: Exception) -> GridSimError:
    """Return the error for a result that was not written, since reading it would raise `error`."""
    return GridSimError(
        f"{os.fspath(path)}: the result was not written, since it could not be read back: {error}"
    )


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Read a result file: return the digest stated in it, and the other arguments of `write`.

    Raises
    ------
    GridSimError
        If the file is not a result or is damaged.
    OSError
        If it cannot be read.
    """
    name = os.fspath(path)
    try:
        with open_regular(path) as stream, Reader(stream) as archive:
            metadata = archive.json(_METADATA, _MAX_VALUES)
            if type(metadata["format"]) is not int or metadata["format"] not in _READABLE_FORMATS:
                formats = " or ".join(map(str, _READABLE_FORMATS))
                raise GridSimError(
                    f"{name}: format of a result must be {formats}, got {metadata['format']!r}"
                )
            arrays = archive.scenario_arrays(metadata.get("arrays", ()))
            names = metadata["tables"].items()
            columns = archive.arrays([_member(table, key) for table, keys in names for key in keys])
            tables = {table: Table({key: next(columns) for key in keys}) for table, keys in names}
        rest = {key: metadata[key] for key in ("facts", "scheduler", "provenance")}
        check_columns(tables)
        _check_displayable(rest)
        rest["scheduler"]["class"] = current_name(rest["scheduler"]["class"])
        return metadata["digest"], {"tables": tables, "arrays": arrays, **rest}
    except Exception as error:
        raise damaged_result_error(name, error) from error


def _check_displayable(rest: Mapping[str, Any]) -> None:
    """Check that the facts, the scheduler and the provenance can be displayed."""
    for name, entries in rest.items():
        if not isinstance(entries, dict):
            raise ValueError(f"{name} must be a table, got {type(entries).__name__}")
    msgspec.convert(rest["provenance"], _Provenance)
    scheduler = rest["scheduler"]
    for key, kind in (("name", str), ("class", str), ("parameters", dict)):
        if not isinstance(scheduler.get(key), kind):
            condition = "a string" if kind is str else "a table"
            raise ValueError(f"scheduler.{key} must be {condition}, got {type(scheduler.get(key)).__name__}")


def damaged_result_error(name: str, error: Exception) -> Exception:
    """Return the error for a damaged file: errors of zip, npy, JSON and tables become a GridSimError.

    Errors of the disk, which name the file, are returned unchanged.
    """
    is_read_error = isinstance(error, OSError) and error.filename is not None
    if is_read_error or isinstance(error, (GridSimError, MemoryError)):
        return error
    return GridSimError(f"{name}: not a valid result file ({error})")


def _member(table: str, column: str) -> str:
    return f"tables/{table}/{column}.npy"
