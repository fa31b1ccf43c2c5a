"""Files of results: a zip of one .npy member a column, ``tables/TABLE/COLUMN.npy``, and ``result.json``.

``numpy.load`` reads the columns too.
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

#: Version of the file format.
FORMAT = 1
_ABOUT = "result.json"
#: Values in it at most: what is long is in tables, and a scenario is one text.
_VALUES = 1 << 20


_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
#: What is shown as it is, in a line of others.
_Word = Annotated[str, msgspec.Meta(pattern=r"\A[ -~]{0,200}\Z")]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _Kept(msgspec.Struct):
    """Of a table with a limit."""

    kept: _Whole = 0
    limit: _Whole = 0


class _Decisions(_Kept, kw_only=True):
    words: dict[str, tuple[str, str, str]]
    dropped: _Whole


class _Messages(_Kept):
    left_out: _Whole = 0


class _Provenance(msgspec.Struct):
    """Of what the digest does not cover, the types on which others rely; more may be there."""

    gridcore: _Word = ""
    python: _Word = ""
    implementation: _Word = ""
    numpy: _Word = ""
    system: _Word = ""
    seed: int = 0
    files: dict[str, _Sha256] = {}
    scenario: str = ""
    decisions: _Decisions | msgspec.UnsetType = msgspec.UNSET
    message_log: _Messages | msgspec.UnsetType = msgspec.UNSET
    clock_seconds: float = 0.0
    events: _Whole = 0
    handler_calls: _Whole = 0
    cohort_limit: _Whole | None = None
    threads: _Whole = 1
    wall_seconds: float = 0.0
    resumed: _Whole = 0
    peak_memory: _Whole | None = None


def write(
    path: str | os.PathLike[str], *, digest: str, tables: Mapping[str, Table], **rest: Mapping[str, Any]
) -> None:
    """Write a result, whole or not at all; `rest` is plain."""
    about = {
        "format": FORMAT,
        "digest": digest,
        "tables": {name: list(table.keys()) for name, table in tables.items()},
        **rest,
    }
    with atomic_file(path) as stream, Writer(stream) as archive:
        archive.json(_ABOUT, about)
        for name, table in tables.items():
            for key, column in table.items():
                archive.array(_member(name, key), column)


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """The digest that a file states, and what `write` was given besides.

    Raises GridSimError for a file that is no result or is damaged, OSError for one that cannot be read.
    """
    name = os.fspath(path)
    with opened(path) as stream:
        content = io.BytesIO(stream.read())
    try:
        with Reader(content) as archive:
            about = archive.json(_ABOUT, _VALUES)
            if about["format"] != FORMAT:
                raise GridSimError(
                    f"{name}: a result in format {about['format']!r}, this version reads {FORMAT}"
                )
            tables = {
                table: Table({key: frozen(archive.array(_member(table, key))) for key in keys})
                for table, keys in about["tables"].items()
            }
        rest = {key: about[key] for key in ("facts", "scheduler", "provenance")}
        _check(tables, rest)
        rest["scheduler"]["class"] = current_name(rest["scheduler"]["class"])
        return about["digest"], {"tables": tables, **rest}
    except Exception as error:
        raise damaged(name, error) from error


def _check(tables: Mapping[str, Table], rest: Mapping[str, Any]) -> None:
    """That what is read can be shown: tables, names and parameters."""
    check_columns(tables)
    for name, about in rest.items():
        if not isinstance(about, dict):
            raise ValueError(f"{name} is no table")
    msgspec.convert(rest["provenance"], _Provenance)
    scheduler = rest["scheduler"]
    for key, kind in (("name", str), ("class", str), ("parameters", dict)):
        if not isinstance(scheduler.get(key), kind):
            raise ValueError(f"scheduler.{key} is no {'text' if kind is str else 'table'}")


def damaged(name: str, error: Exception) -> Exception:
    """What to raise; whatever a damaged file makes of zip, npy, JSON and tables is one error."""
    if isinstance(error, (GridSimError, MemoryError)):
        return error
    return GridSimError(f"{name}: not a sound result file ({error})")


def _member(table: str, column: str) -> str:
    return f"tables/{table}/{column}.npy"
