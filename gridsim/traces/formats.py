"""Trace formats: built-in formats, and formats of plugins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gridsim.support.files import StrPath
from gridsim.support.imports import plugins
from gridsim.traces.availability import AvailabilityTrace
from gridsim.traces.job_formats import JOB_FORMATS
from gridsim.traces.jobs import JobLog

#: Format that gridsim reads without plugins -> its description.
BUILT_IN = {
    **{name: format.description for name, format in JOB_FORMATS.items()},
    "tr": "logs of jobs with the durations of their tasks",
    "avt": "availability: up intervals of each host",
    "fta": "availability: a Failure Trace Archive folder, or its event_trace.tab",
    "hosts": "speeds of hosts (CSV)",
}


@dataclass(frozen=True)
class TraceFormat:
    """A trace format of a plugin, a package with an entry point in the group ``gridsim.traces``.

    The name of the entry point is the name of the format.  Files of the format can be used wherever gridsim
    takes a job log or an availability trace, as in a scenario file or for ``--job-log``.

    Parameters
    ----------
    kind
        ``"jobs"`` or ``"availability"``.
    read
        Function of a path that returns a `JobLog` (`JobLog.of` makes one) or an `AvailabilityTrace`.
    suffixes
        Suffixes of the names of its files, such as ``".jobs.csv"``; ``.gz`` may follow.
    about
        Description of the format, in one line.
    """

    kind: Literal["jobs", "availability"]
    read: Callable[[StrPath], JobLog | AvailabilityTrace]
    suffixes: tuple[str, ...]
    about: str = ""

    def names(self, path: StrPath) -> bool:
        """Return whether the name of a file has a suffix of this format."""
        return Path(path).name.removesuffix(".gz").endswith(self.suffixes)


def plugin_formats() -> dict[str, TraceFormat]:
    """Return name -> format, for the formats of installed plugins."""
    return plugins("gridsim.traces", _fault, BUILT_IN)


def format_descriptions() -> dict[str, str]:
    """Return name -> description of all formats."""
    return BUILT_IN | {name: format.about for name, format in plugin_formats().items()}


def _fault(_: str, format: Any) -> str:
    """Return why the object of an entry point is not a valid format; "" if it is one."""
    if not isinstance(format, TraceFormat):
        return f"it must be a gridsim.traces.TraceFormat, got {type(format).__name__}"
    if not (format.suffixes and all(isinstance(suffix, str) and suffix for suffix in format.suffixes)):
        return f"its suffixes must be one or more strings, got {format.suffixes!r}"
    if format.kind not in ("jobs", "availability"):
        return f"its kind must be jobs or availability, got {format.kind!r}"
    return ""
