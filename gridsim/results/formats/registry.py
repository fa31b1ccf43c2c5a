"""Export formats: those of gridsim, and those of plugins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gridsim.results.formats.job_logs import to_batsim, to_swf
from gridsim.results.formats.perfetto import to_perfetto
from gridsim.results.result import Result
from gridsim.support.arguments import one_of, short_repr
from gridsim.support.files import StrPath
from gridsim.support.imports import plugins


@dataclass(frozen=True)
class ExportFormat:
    """A format in which results are written for another program.

    A plugin, a package with an entry point in the group ``gridsim.exporters``, adds a format under the name
    of the entry point.

    Parameters
    ----------
    write
        Function of a `Result` and a path that writes a file and returns its number of rows.
    text
        Description of the format, in one line.
    """

    write: Callable[[Result, StrPath], int]
    text: str = ""


#: Name -> format, for those of gridsim.
BUILT_IN = {
    "batsim": ExportFormat(to_batsim, "Batsim's jobs table (column job_id)"),
    "evalys": ExportFormat(partial(to_batsim, dialect="evalys"), "the same table for evalys (column jobID)"),
    "swf": ExportFormat(to_swf, "a job log in the Standard Workload Format"),
    "perfetto": ExportFormat(to_perfetto, "a trace for ui.perfetto.dev"),
}


def export_formats() -> dict[str, ExportFormat]:
    """Return name -> format of all formats, with those of installed plugins."""
    return BUILT_IN | plugins("gridsim.exporters", _fault, BUILT_IN)


def _fault(_: str, format: Any) -> str:
    """Return why the object of an entry point is not a valid format; "" if it is one."""
    if not isinstance(format, ExportFormat):
        return f"it must be a {__name__}.ExportFormat, got {short_repr(format)}"
    return "" if callable(format.write) else f"its write must be a function, got {short_repr(format.write)}"


def export(result: Result, path: StrPath, format: str) -> int:
    """Write a result in the format of another program, and return the number of rows.

    Parameters
    ----------
    path
        The file to write.
    format
        "batsim", "evalys", "swf", "perfetto", or a format of an installed plugin.

    Raises
    ------
    ScenarioError
        If there is no such format, or the result lacks what the format requires.
    """
    formats = BUILT_IN if format in BUILT_IN else export_formats()
    return formats[one_of("format", format, tuple(formats))].write(result, path)
