"""The formats of traces: those that gridsim reads itself, and those that other packages add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gridsim.support.files import StrPath
from gridsim.support.plugins import plugins
from gridsim.traces.availability import AvailabilityTrace
from gridsim.traces.jobs import JobLog

#: Format -> what it is, for those that gridsim reads itself.
OWN = {
    "swf": "job logs in the Standard Workload Format",
    "gwf": "job logs in the Grid Workload Format",
    "tr": "logs of jobs with the durations of their tasks",
    "avt": "availability: up intervals of each host",
    "fta": "availability: a Failure Trace Archive folder, or its event_trace.tab",
    "hosts": "speeds of hosts (CSV)",
}


@dataclass(frozen=True)
class TraceFormat:
    """A trace format of another package, which declares it as an entry point of the group ``gridsim.traces``.

    The name of the entry point is the name of the format.  Files of the format can be used wherever gridsim
    takes a job log or an availability trace, as in a scenario file or for ``--job-log``.

    Parameters
    ----------
    kind
        ``"jobs"`` or ``"availability"``.
    read
        Function of a path that returns a `JobLog` (see `JobLog.of`) or an `AvailabilityTrace`.
    suffixes
        Ends of the names of its files, such as ``".jobs.csv"``; with ``.gz`` after it, too.
    about
        What the format is, in a line.
    """

    kind: Literal["jobs", "availability"]
    read: Callable[[StrPath], JobLog | AvailabilityTrace]
    suffixes: tuple[str, ...]
    about: str = ""

    def names(self, path: StrPath) -> bool:
        """Whether the name of a file is one of this format."""
        return Path(path).name.removesuffix(".gz").endswith(self.suffixes)


def added() -> dict[str, TraceFormat]:
    """Return name -> format, of the formats that installed packages add."""
    return plugins("gridsim.traces", _fault, OWN)


def known() -> dict[str, str]:
    """Return the name of each format, and what it is."""
    return OWN | {name: each.about for name, each in added().items()}


def _fault(loaded: Any) -> str:
    if not isinstance(loaded, TraceFormat):
        return f"it must be a gridsim.traces.TraceFormat, got {type(loaded).__name__}"
    if not (loaded.suffixes and all(isinstance(each, str) and each for each in loaded.suffixes)):
        return "its suffixes must be texts, at least one"
    if loaded.kind not in ("jobs", "availability"):
        return f"its kind must be jobs or availability, got {loaded.kind!r}"
    return ""
