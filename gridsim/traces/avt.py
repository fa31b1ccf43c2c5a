"""Availability traces in the `.avt` format: one host a line, `id n start end start end ...` in seconds.

Source: the format of P. B. Godfrey's availability trace repository (microsoft99, websites02, ...).
"""

from __future__ import annotations

import os
from array import array

import numpy as np

from gridsim.errors import TraceFormatError
from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST,
    cut,
    format_error,
    number_fault,
    parse_number,
    text_lines,
    warn_repairs,
)
from gridsim.traces.availability import AvailabilityTrace, RawIntervals, assemble


def read_avt(path: StrPath) -> AvailabilityTrace:
    """Read an `.avt` file, plain or gzip: `id n` and n pairs `start end` (s), split by blanks or tabs.

    Lines that begin with `#` are comments; ids are any words. Hosts join at 0, and the horizon is the last
    end. Intervals of 0 s are left out, and intervals that touch or overlap are merged; one `TraceWarning`
    counts both.

    Raises `TraceFormatError` "FILE:LINE: ..." if n does not fit the line, a time is not a finite number, an
    interval ends before it starts, an id occurs twice, or the file is missing, truncated, binary or empty.
    """
    names, raw = parse_avt(path)
    horizon = float(raw.end.max()) if len(raw.end) else 0.0
    trace, repairs = assemble(os.fspath(path), names, raw, first=np.zeros(len(names)), horizon=horizon)
    warn_repairs(path, repairs)
    return trace


def parse_avt(path: StrPath) -> tuple[list[str], RawIntervals]:
    """Return host names and up intervals exactly as they are in the file (errors as `read_avt`)."""
    seen: dict[str, int] = {}
    counts, lines, times = array("q"), array("q"), array("d")
    number = 0
    for number, line in enumerate(text_lines(path), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name = words[0]
        if name in seen:
            raise format_error(path, number, f"host {cut(name)} was already given at line {seen[name]}")
        count = parse_count(words[1]) if len(words) > 1 else None
        if count is None:
            found = repr(cut(words[1])) if len(words) > 1 else "missing"
            raise format_error(
                path, number, f"n of host {cut(name)} is {found}, expected a number of intervals"
            )
        if len(words) != 2 + 2 * count:
            message = f"host {cut(name)} has n = {count}, expected {2 * count} times, found {len(words) - 2}"
            raise format_error(path, number, message)
        seen[name] = number
        counts.append(count)
        lines.append(number)
        try:
            # float() alone would accept 1_000, and digits outside of ASCII
            if ("_" in line or not line.isascii()) and None in map(parse_number, words[2:]):
                raise ValueError
            times.extend(map(float, words[2:]))
        except ValueError:
            raise _time_error(path, number, words) from None
    if not seen:
        raise format_error(path, max(1, number), "no hosts in this trace")

    host = np.repeat(np.arange(len(counts)), counts)
    pairs = np.array(times, dtype=np.float64).reshape(-1, 2)
    raw = RawIntervals(host, pairs[:, 0], pairs[:, 1], np.array(lines, dtype=np.int64)[host])
    names = list(seen)
    for row in np.flatnonzero(~(np.abs(pairs) <= LARGEST).all(axis=1))[:1]:  # False for NaN
        message = (
            f"host {cut(names[host[row]])} is up from {pairs[row, 0]} to {pairs[row, 1]}, expected finite "
            f"times of at most {LARGEST:g} s"
        )
        raise format_error(path, int(raw.line[row]), message)
    for row in np.flatnonzero(raw.end < raw.start)[:1]:
        interval = f"from {raw.start[row]:.15g} s to {raw.end[row]:.15g} s"
        raise format_error(
            path, int(raw.line[row]), f"host {cut(names[host[row]])} is up {interval}: end < start"
        )
    return names, raw


def parse_count(word: str) -> int | None:
    """Return the value of a plain non-negative integer; None for anything else."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 16 else None


def _time_error(path: StrPath, number: int, words: list[str]) -> TraceFormatError:
    faults = (number_fault(f"time {place}", word) for place, word in enumerate(words[2:], 1))
    return format_error(path, number, next((fault for fault in faults if fault), "a time is not a number"))
