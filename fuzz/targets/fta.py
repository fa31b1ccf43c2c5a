"""Availability traces of the Failure Trace Archive: events, and names of nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from files import FOLDER, put, refused

from gridsim.errors import TraceFormatError
from gridsim.traces import read_availability, read_fta
from gridsim.traces.lint import lint

from .avt import machines, sound

HEAD = b"#event_id\tcomponent_id\tnode_id\tplatform_id\tnode_name\tevent_type\tevent_start_time\tevent_stop_time\n"
DICTIONARY = [b"\t1\t", b"\t0\t", b"NULL", b"1e18", b"-1", b"nan", b"\x00\x01", b"event_start_time"]
#: What stands between the two files of an input.
CUT = b"\n%%\n"


def seeds() -> Iterator[bytes]:
    rows = b"0\t0\t1\t1\ta\t1\t100\t200\tNULL\n1\t0\t1\t1\ta\t0\t200\t300\tNULL\n2\t0\t2\t1\tb\t1\t150\t250.5\tx\n"
    yield HEAD + rows + CUT + b"#node\n1\t1\ta.b\n3\t1\tc\n"
    yield rows + rows.replace(b"\t0\t2", b"\t1\t2")
    yield rows.replace(b"100", b"-1e18").replace(b"250.5", b"1e18")


def one(data: bytes) -> None:
    events, _, nodes = data.partition(CUT)
    path = put("event_trace.tab", events)
    if nodes:
        put("node.tab", nodes)
    try:
        with refused(TraceFormatError, naming=FOLDER):
            trace = read_fta(FOLDER if len(data) % 2 else path)
            sound(trace)
            if len(data) % 8 == 1:
                assert len(read_availability(path)) == len(trace)
            if len(data) % 8 == 0:
                machines(path, trace)
        if len(data) % 16 == 0:
            lint(path)
    finally:
        if nodes:
            os.unlink(Path(FOLDER, "node.tab"))
