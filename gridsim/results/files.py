"""Result files: a zip with one .npy member per column, ``tables/TABLE/COLUMN.npy``, and ``result.json``.

The long lists of the scenario are members, too, ``scenario/SHA256.npy``.  ``numpy.load`` reads all of them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gridsim.errors import GridSimError
from gridsim.results.archive import Reader, Writer
from gridsim.results.schema import check_columns
from gridsim.results.table import Table, frozen
from gridsim.support.files import atomic_file, opened
from gridsim.support.imports import current_name
from gridsim.support.references import Arrays

#: Version of the file format, and the versions that are read; in format 1 the scenario is one text.
FORMAT = 2
_READ = (1, 2)
_ABOUT = "result.json"
#: Largest number of values in `_ABOUT`: long data are in tables, and a scenario is one string.
_VALUES = 1 << 20


_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
#: A number of machines.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
#: Text that is shown unchanged, within a line: printable ASCII.
_Word = Annotated[str, msgspec.Meta(pattern=r"\A[ -~]{0,200}\Z")]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _Kept(msgspec.Struct):
    """Provenance of a table whose rows were limited: rows kept, and the limit."""

    kept: _Whole = 0
    limit: _Whole = 0


class _Decisions(_Kept, kw_only=True):
    words: dict[str, tuple[str, str, str]]
    dropped: _Whole


class _Availability(msgspec.Struct):
    """Provenance of a run whose machines may fail; see `gridsim.simulation.outages.Outages.availability`."""

    at_start: _Whole
    never: _Whole
    mean: float


class _Messages(_Kept):
    left_out: _Whole = 0
    delays: dict[str, float] = {}
    machines: _Count | None = None  # of earlier versions, see `Result.servers`


class _Provenance(msgspec.Struct):
    """Types of the provenance entries that other code relies on; the digest does not cover them.

    The provenance may have further entries.
    """

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
    servers: _Count = 0
    clock_seconds: float = 0.0
    events: _Whole = 0
    handler_calls: _Whole = 0
    cohort_limit: _Whole | None = None
    threads: _Whole = 1
    processes: _Whole = 1
    wall_seconds: float = 0.0
    resumed: _Whole = 0
    peak_memory: _Whole | None = None


def write(
    path: str | os.PathLike[str],
    *,
    digest: str,
    tables: Mapping[str, Table],
    arrays: Arrays,
    **rest: Mapping[str, Any],
) -> None:
    """Write a result file, either completely or not at all; `rest` must be plain values.

    Raises GridSimError for what `read` would refuse, and OSError if the file cannot be written.

    Parameters
    ----------
    arrays
        Those to which the scenario in the provenance refers.
    """
    about = {
        "format": FORMAT,
        "digest": digest,
        "tables": {name: list(table.keys()) for name, table in tables.items()},
        "arrays": list(arrays),
        **rest,
    }
    try:
        _check(rest)
        with atomic_file(path) as stream, Writer(stream) as archive:
            archive.arrays(arrays)
            for name, table in tables.items():
                for key, column in table.items():
                    archive.array(_member(name, key), column)
            archive.json(_ABOUT, about, _VALUES)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise unreadable(path, error) from error


def unreadable(path: str | os.PathLike[str], error: Exception) -> GridSimError:
    """Return what to raise for a result that is not written, as reading it would raise `error`."""
    return GridSimError(f"{os.fspath(path)}: not written, as it could not be read again ({error})")


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Read a result file: return the digest stated in it, and the other arguments that `write` was given.

    Raises GridSimError if the file is not a result or is damaged, OSError if it cannot be read.
    """
    name = os.fspath(path)
    with opened(path) as stream:
        content = io.BytesIO(stream.read())
    try:
        with Reader(content) as archive:
            about = archive.json(_ABOUT, _VALUES)
            if about["format"] not in _READ:
                read = " and ".join(map(str, _READ))
                raise GridSimError(
                    f"{name}: a result in format {about['format']!r}, this version reads {read}"
                )
            arrays = archive.arrays(about.get("arrays", ()))
            tables = {
                table: Table({key: frozen(archive.array(_member(table, key))) for key in keys})
                for table, keys in about["tables"].items()
            }
        rest = {key: about[key] for key in ("facts", "scheduler", "provenance")}
        check_columns(tables)
        _check(rest)
        rest["scheduler"]["class"] = current_name(rest["scheduler"]["class"])
        return about["digest"], {"tables": tables, "arrays": arrays, **rest}
    except Exception as error:
        raise damaged(name, error) from error


def _check(rest: Mapping[str, Any]) -> None:
    """Check that what a file says besides its tables can be shown: names and parameters."""
    for name, about in rest.items():
        if not isinstance(about, dict):
            raise ValueError(f"{name} is no table")
    msgspec.convert(rest["provenance"], _Provenance)
    scheduler = rest["scheduler"]
    for key, kind in (("name", str), ("class", str), ("parameters", dict)):
        if not isinstance(scheduler.get(key), kind):
            raise ValueError(f"scheduler.{key} is no {'text' if kind is str else 'table'}")


def damaged(name: str, error: Exception) -> Exception:
    """Return what to raise for a damaged file: errors of zip, npy, JSON and tables become GridSimErrors."""
    if isinstance(error, (GridSimError, MemoryError)):
        return error
    return GridSimError(f"{name}: not a sound result file ({error})")


def _member(table: str, column: str) -> str:
    return f"tables/{table}/{column}.npy"
