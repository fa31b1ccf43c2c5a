"""Availability traces in the `.avt` format: one host per line, `id n start end start end ...` in seconds.

Source: the format of P. B. Godfrey's availability trace repository (microsoft99, websites02, ...).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Iterator
from contextlib import closing

import numpy as np

from gridsim.support.files import StrPath
from gridsim.traces._text import (
    LARGEST_VALUE,
    format_error,
    number_fault,
    parse_number,
    text_lines,
    truncate,
    warn_repairs,
)
from gridsim.traces.availability import AvailabilityTrace, RawIntervals, assemble


def read_avt(path: StrPath) -> AvailabilityTrace:
    """Read an `.avt` file, plain or gzip: `id n` and n pairs `start end` (s), separated by blanks or tabs.

    Lines that begin with `#` are comments; an id may be any word.  Hosts join at 0, and the horizon is the
    last end.  Intervals of 0 s are left out, and intervals that touch or overlap are merged; one
    `TraceWarning` counts both.

    Raises
    ------
    TraceFormatError
        If n does not match the line, a time is not a finite number, an interval ends before it starts, an id
        occurs twice, or the file is missing, truncated, binary or empty.  The message begins with the file
        and any faulty line.
    """
    names, raw = parse_avt(path)
    horizon = float(raw.end.max()) if len(raw.end) else 0.0
    trace, repairs = assemble(os.fspath(path), names, raw, first=np.zeros(len(names)), horizon=horizon)
    warn_repairs(path, repairs)
    return trace


def parse_avt(path: StrPath) -> tuple[list[str], RawIntervals]:
    """Return host names and up intervals exactly as in the file; raises the errors of `read_avt`."""
    names: list[str] = []
    counts, lines, times = array("q"), array("q"), array("d")
    line = 1
    for line, fault, words in _hosts(path):
        if fault:
            raise format_error(path, line, fault)
        names.append(words[0])
        counts.append(len(words) // 2 - 1)
        lines.append(line)
        times.extend(map(float, words[2:]))
    if not names:
        raise format_error(path, line, "no hosts in this trace")
    host = np.repeat(np.arange(len(counts)), counts)
    pairs = np.array(times, dtype=np.float64).reshape(-1, 2)
    return names, RawIntervals(host, pairs[:, 0], pairs[:, 1], np.array(lines, dtype=np.int64)[host])


def faulty_lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Yield (line number, fault) for each line of a host that cannot be read."""
    with closing(_hosts(path)) as hosts:
        for number, fault, _ in hosts:
            if fault:
                yield number, fault


def _hosts(path: StrPath) -> Generator[tuple[int, str | None, list[str]], None, None]:
    """Yield the number, the fault (or None) and the words of each line of a host."""
    first_lines: dict[str, int] = {}
    with closing(text_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words and not words[0].startswith("#"):
                first = first_lines.setdefault(words[0], number)
                duplicate = (
                    f"host {truncate(words[0])} must have one line, got a second (the first is line {first})"
                )
                yield number, duplicate if first < number else _line_fault(line, words), words


def _line_fault(line: str, words: list[str]) -> str | None:
    name = truncate(words[0])
    count = parse_count(words[1]) if len(words) > 1 else None
    if count is None:
        value = repr(truncate(words[1])) if len(words) > 1 else "nothing"
        return f"n of host {name} must be a whole number >= 0, got {value}"
    if len(words) != 2 + 2 * count:
        return f"host {name} must have {2 * count} times, as n is {count}, got {len(words) - 2}"
    try:
        # float() also accepts 1_000 and digits outside of ASCII
        plain = ("_" not in line and line.isascii()) or None not in map(parse_number, words[2:])
        times = list(map(float, words[2:])) if plain else []
    except ValueError:
        plain = False
    if not plain:
        faults = (number_fault(f"time {place}", word) for place, word in enumerate(words[2:], 1))
        return next((fault for fault in faults if fault), "a time must be a number")
    for start, end in zip(times[::2], times[1::2], strict=True):
        if not (abs(start) <= LARGEST_VALUE and abs(end) <= LARGEST_VALUE):  # False for NaN
            limit = f"{LARGEST_VALUE:.16g} s"
            return f"times of host {name} must be finite and at most {limit}, got {start} to {end}"
        if end < start:
            interval = f"{start:.15g} to {end:.15g} s"
            return f"an up interval of host {name} must not end before its start, got {interval}"
    return None


def parse_count(word: str) -> int | None:
    """Return the value of a plain non-negative integer; None for anything else."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 16 else None
