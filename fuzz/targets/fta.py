"""Availability traces of the Failure Trace Archive: events, and names of nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from files import FOLDER, check_refusal, write_file

from gridsim.errors import TraceFormatError
from gridsim.traces import read_availability, read_fta
from gridsim.traces.lint import lint

from .avt import check_faults, check_sound

HEAD = b"#event_id component_id node_id platform_id node_name event_type event_start_time event_stop_time\n"
ROWS = b"""0 0 1 1 a 1 100 200 NULL
1 0 1 1 a 0 200 300 NULL
2 0 2 1 b 1 150 250.5 x
"""
DICTIONARY = [b"\t1\t", b"\t0\t", b"NULL", b"1e18", b"-1", b"nan", b"\x00\x01", b"event_start_time"]
#: Separator of the two files in an input.
SEPARATOR = b"\n%%\n"


def seeds() -> Iterator[bytes]:
    head, rows = (text.replace(b" ", b"\t") for text in (HEAD, ROWS))
    yield head + rows + SEPARATOR + b"#node\n1\t1\ta.b\n3\t1\tc\n"
    yield rows + rows.replace(b"\t0\t2", b"\t1\t2")
    yield rows.replace(b"100", b"-1e18").replace(b"250.5", b"1e18")


def execute(data: bytes) -> None:
    events, _, nodes = data.partition(SEPARATOR)
    path = write_file("event_trace.tab", events)
    if nodes:
        write_file("node.tab", nodes)
    try:
        with check_refusal(TraceFormatError, naming=FOLDER):
            trace = read_fta(FOLDER if len(data) % 2 else path)
            check_sound(trace)
            if len(data) % 8 == 1:
                assert len(read_availability(path)) == len(trace)
            if len(data) % 8 == 0:
                check_faults(path, trace)
        if len(data) % 16 == 0:
            lint(path)
    finally:
        if nodes:
            os.unlink(Path(FOLDER, "node.tab"))
