"""Availability traces (.avt)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from files import check_refusal, write_file

import gridsim as gs
from gridsim.errors import ScenarioError, TraceFormatError
from gridsim.traces import read_avt
from gridsim.traces.availability import AvailabilityTrace
from gridsim.traces.lint import info, lint

DICTIONARY = [b"# ", b" 1e18", b" -1", b" nan", b" 0 0", b"\t", b" 999999999999999"]


def seeds() -> Iterator[bytes]:
    yield b"# hosts\nh1 2 0 10 20 30.5\nh2 1 5 25\nh3 0\n"
    yield b"a 3 0 10 10 20 5 7\nb 1 -5 1e18\n"
    yield b"a 1 0 1e308\n"


def execute(data: bytes) -> None:
    path = write_file("hosts.avt", data)
    with check_refusal(TraceFormatError, naming=path):
        trace = read_avt(path)
        check_sound(trace)
        if len(data) % 8 == 0:
            check_round_trip(trace)
            info(path)
            check_faults(path, trace)
    if len(data) % 16 == 0:
        lint(path)


def check_sound(trace: AvailabilityTrace) -> None:
    """Check that times are finite, and intervals of each host sorted, disjoint and not empty."""
    assert trace.offsets[0] == 0 and trace.offsets[-1] == len(trace.start) == len(trace.end)
    assert (
        len(trace.offsets) == len(trace) + 1 == len(trace.first) + 1 and (np.diff(trace.offsets) >= 0).all()
    )
    assert np.isfinite(trace.start).all() and np.isfinite(trace.end).all() and np.isfinite(trace.first).all()
    assert np.isfinite(trace.horizon) and (trace.end <= trace.horizon).all()
    assert (trace.start < trace.end).all() and np.isfinite(trace.up_time()).all()
    for host in range(len(trace)):
        start, end = trace.intervals(host)
        assert (end[:-1] < start[1:]).all()


def check_round_trip(trace: AvailabilityTrace) -> None:
    """Check that a written copy is read with the same content."""
    lines = []
    for host in range(len(trace)):
        times = np.ravel(np.column_stack(trace.intervals(host))).tolist()
        lines.append(" ".join([f"h{host}", str(len(times) // 2), *map(repr, times)]))
    written = read_avt(write_file("again.avt", "\n".join(lines).encode()))
    assert np.array_equal(written.start, trace.start) and np.array_equal(written.end, trace.end)
    assert np.array_equal(written.offsets, trace.offsets)


def check_faults(path: str, trace: AvailabilityTrace) -> None:
    """Check failures of machines that are drawn from these hosts."""
    try:
        course = gs.Faults.trace(path, seed=1, repeat=False).course(min(3, len(trace)))
    except ScenarioError as error:
        assert str(error).isprintable()
        return
    for block in course.blocks:
        assert (block.time >= 0).all() and (block.until > block.time).all()
        break
