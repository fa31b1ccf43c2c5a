"""Availability traces in the tab format of the Failure Trace Archive (FTA).

Source: http://fta.scem.uws.edu.au/index.php?n=Main.FTAFormat: `event_trace.tab` with one event per line
(event_id, component_id, node_id, platform_id, node_name, event_type, event_start_time, event_stop_time,
event_end_reason), `node.tab` with the nodes. Event types: 1 up, 0 down. One desktop trace also has 2 (user
present) and 3 (processor busy), during which the grid may not use the node either.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import TraceFormatError
from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST_VALUE,
    carriage_return_fault,
    format_error,
    number_fault,
    text_lines,
    warn_repairs,
)
from gridsim.traces.availability import AvailabilityTrace, RawIntervals, assemble, first_line

UP = 1  # event_type; 0 is down
_COLUMNS = {1: "component_id", 2: "node_id", 5: "event_type", 6: "event_start_time", 7: "event_stop_time"}
#: Possible names of the files of events and of the table of nodes in the folder of a trace.
EVENT_FILES = ("event_trace.tab", "event_trace.tab.gz")
NODE_TABLES = ("node.tab", "node.tab.gz")
_WIDTH = 8  # columns up to event_stop_time; event_end_reason is not read


@dataclass(frozen=True)
class FtaEvents:
    """Events of a trace file, one row per event, in the order of the file; times are s since 1970."""

    component: NDArray[np.int64]
    node: NDArray[np.int64]
    kind: NDArray[np.int64]
    start: NDArray[np.float64]
    stop: NDArray[np.float64]
    line: NDArray[np.int64]


def read_fta(path: StrPath) -> AvailabilityTrace:
    """Read a Failure Trace Archive trace: its folder, or its `event_trace.tab` (plain or gzip).

    A node is up during its events of type 1, and down during other events and at times without a record.
    Time 0 is the start of the trace's first event (its time in the file is `origin`), and the horizon is the
    latest end.  A node joins at its first event; trace_start in component.tab is not used, because it is the
    same for nodes that joined months apart.  Names are those of `node.tab` in the same folder, or the node
    ids without it.  Nodes without any event are included and join at the horizon.  Hosts are sorted by
    node id.

    One `TraceWarning` counts up intervals of 0 s (left out), touching or overlapping up intervals (merged,
    which drops failures below the resolution), events of types other than 0 and 1 (taken as down), and events
    of components other than the one with the lowest id (left out).

    Columns are separated by tabs, or by blanks in lines without a tab.  A header line need not begin with
    `#`.

    Raises
    ------
    TraceFormatError
        If a line has fewer than 8 columns, a field is not a finite number, an event stops before it starts,
        or a file is missing, truncated, binary or empty.  The message begins with the file and any faulty
        line.
    """
    file = event_file(path)
    events = parse_fta(file)
    names = node_names(file, events)
    ids = np.array(list(names), dtype=np.int64)
    used = events.component == events.component.min()
    unused = np.flatnonzero(~used)
    unknown = np.flatnonzero(used & (events.kind != UP) & (events.kind != 0))
    origin, horizon = float(events.start[used].min()), float(events.stop[used].max())
    host = np.searchsorted(ids, events.node)

    first = np.full(len(ids), horizon)
    np.minimum.at(first, host[used], events.start[used])
    up = np.flatnonzero(used & (events.kind == UP))
    raw = RawIntervals(host[up], events.start[up] - origin, events.stop[up] - origin, events.line[up])
    hosts, span = list(names.values()), horizon - origin
    trace, repairs = assemble(os.fspath(file), hosts, raw, first=first - origin, horizon=span, origin=origin)
    repairs += [
        (len(unknown), first_line(events.line, unknown), "events of types other than 0 and 1, taken as down"),
        (len(unused), first_line(events.line, unused), "events of further components, left out"),
    ]
    warn_repairs(file, repairs)
    return trace


def event_file(path: StrPath) -> Path:
    """Return the file of events: event_trace.tab[.gz] in `path` if it is a folder, else `path`.

    Raises
    ------
    TraceFormatError
        If the folder has no such file.
    """
    folder = Path(path)
    if not folder.is_dir():
        return folder
    for name in EVENT_FILES:
        if (file := folder / name).exists():
            return file
    raise format_error(folder, 0, "no event_trace.tab or event_trace.tab.gz in this folder")


def node_table(file: StrPath) -> Path | None:
    """Return node.tab[.gz] in the folder of a file of events; None if there is none."""
    tables = (Path(file).parent / name for name in NODE_TABLES)
    return next((table for table in tables if table.exists()), None)


def parse_fta(file: StrPath) -> FtaEvents:
    """Return the events of an event_trace file, without any repair; raises the errors of `read_fta`."""
    numbers = array("q")

    def event_lines() -> Generator[str, None, None]:
        with closing(_lines(file)) as lines:
            for number, line in lines:
                numbers.append(number)
                # in lines without tabs, blanks separate the columns
                yield line if "\t" in line else "\t".join(line.split())

    with closing(event_lines()) as lines:
        first_event = next(lines, None)
        if first_event is None:
            raise format_error(file, 1, "no events in this trace")
        try:
            table: NDArray[np.float64] = np.loadtxt(
                chain([first_event], lines),
                np.float64,
                delimiter="\t",
                comments=None,
                usecols=list(_COLUMNS),
                ndmin=2,
            )
        except TraceFormatError:
            raise
        except ValueError as error:
            raise _first_fault(file, str(error)) from error
    integers = table[:, :3]
    in_range = (np.abs(table) <= LARGEST_VALUE).all() and (np.abs(integers) < 2**53).all()  # False for NaN
    if not in_range or (integers != np.floor(integers)).any() or (table[:, 4] < table[:, 3]).any():
        raise _first_fault(file, "a field must be a finite (whole) number")

    component, node, kind = (np.ascontiguousarray(column) for column in integers.T.astype(np.int64))
    line = np.array(numbers, dtype=np.int64)
    return FtaEvents(component, node, kind, table[:, 3].copy(), table[:, 4].copy(), line)


def _lines(file: StrPath) -> Generator[tuple[int, str], None, None]:
    """Yield (line number, line) for each line of an event, without comments, headers and empty lines."""
    with closing(text_lines(file)) as lines:
        for number, line in enumerate(lines, 1):
            if line and not line.startswith("#") and not line.isspace() and "event_start_time" not in line:
                yield number, line


def node_names(file: StrPath, events: FtaEvents) -> dict[int, str]:
    """Return node id -> name, sorted by id, of all nodes with events or in node.tab[.gz] of the folder."""
    names = {int(node): str(node) for node in np.unique(events.node)}
    if (table := node_table(file)) is not None:
        for number, line in enumerate(text_lines(table), 1):
            words = [word.strip() for word in line.split("\t")]
            if not words[0] or words[0].startswith("#"):
                continue
            if len(words) < 3:
                raise format_error(table, number, f"a line must have at least 3 columns, got {len(words)}")
            if fault := number_fault("node_id", words[0], integer=True):
                raise format_error(table, number, fault)
            names[int(float(words[0]))] = words[2]
    return dict(sorted(names.items()))


def _first_fault(file: StrPath, default: str) -> TraceFormatError:
    # the fast parser only detects that some line is faulty; this second, slow pass finds the line and the
    # fault
    with closing(faulty_lines(file)) as faults:
        return format_error(file, *(next(faults, None) or carriage_return_fault(file, default)))


def faulty_lines(file: StrPath) -> Generator[tuple[int, str], None, None]:
    """Yield (line number, fault) for each line of an event that cannot be read."""
    with closing(_lines(file)) as lines:
        for number, line in lines:
            if fault := _line_fault([word.strip() for word in line.split("\t" if "\t" in line else None)]):
                yield number, fault


def _line_fault(words: list[str]) -> str | None:
    if len(words) < _WIDTH:
        return f"a line must have at least {_WIDTH} columns separated by tabs, got {len(words)}"
    for column, field in _COLUMNS.items():
        if fault := number_fault(field, words[column], integer=column < 6):
            return fault
    start, stop = float(words[6]), float(words[7])
    return (
        f"an event must not stop before its start, {start:.15g} s, got {stop:.15g} s"
        if stop < start
        else None
    )
