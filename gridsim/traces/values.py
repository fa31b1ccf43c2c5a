"""Values of accounting tables, parsed as arrays: times, durations, amounts of memory, and names.

The functions take the values of a column, and raise `InvalidValue` for one that cannot be read.
An unknown value, such as ``Unknown`` or an empty text, is NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from gridsim.traces._text import LARGEST_COUNT, LARGEST_EXACT, parse_number
from gridsim.traces.tables import Bytes, InvalidValue, TableColumn, as_matrix

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]

#: Lower-case texts of unknown values.
UNKNOWN = frozenset(("", "unknown", "none", "n/a", "null", "(null)", "undefined", "invalid", "not_set"))
_NO_LIMIT = frozenset(("unlimited", "partition_limit"))
#: Number of characters of a time such as 2026-01-05T08:00:00, the places of its digits, and their weights.
_LENGTH = 19
#: Largest number of digits of a number that is parsed as a whole number.
_MAX_DIGITS = 15
_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_MARKS = {4: "-", 7: "-", 13: ":", 16: ":"}
_ZONE = re.compile(r"(\.\d+)? ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?(\.\d+)?", re.ASCII)
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?([cn]?)", re.ASCII | re.IGNORECASE)
_DURATION_TEXT = (
    "a duration such as 1-02:03:04, 02:03:04 or 03:04, or UNLIMITED (a plain number belongs in TimelimitRaw, "
    "in minutes, or ElapsedRaw, in s)"
)
_TIME = "a time such as 2026-01-05T08:00:00, 2026-01-05T08:00:00+01:00 or 1767600000, or Unknown or None"


def is_unknown(value: str) -> bool:
    """Return whether a text stands for an unknown value."""
    return value.strip().lower() in UNKNOWN


def parse_times(values: Bytes) -> Floats:
    """Return times in s since 1970; times without a time zone (`has_zone`) are read as UTC."""
    cells = as_matrix(values)
    seconds, rest = np.full(len(values), np.nan), np.ones(len(values), np.bool_)
    if cells.shape[1] >= _LENGTH:
        dates, is_date = _dates(cells[:, :_LENGTH])
        rest = ~is_date
        while is_date.any():  # once for each ending, which is mostly empty or a time zone
            first = int(np.argmax(is_date))
            rows = is_date & (cells[:, _LENGTH:] == cells[first, _LENGTH:]).all(axis=1)
            offset = _offset(bytes(cells[first, _LENGTH:]).rstrip(b"\0").decode(errors="replace"))
            if offset is None:
                raise InvalidValue(first, _TIME)
            seconds[rows] = dates[rows] + offset
            is_date &= ~rows
    if rest.any():
        seconds[rest], is_whole = _whole_numbers(values[rest])
        rest[rest] = ~is_whole
        _parse_others(values, rest, seconds, _TIME, _unix_time)
    return seconds


def _unix_time(text: str) -> float | None:
    number = parse_number(text)
    if number is not None and 0 <= number <= LARGEST_EXACT:
        return number
    return np.nan if text.lower() in UNKNOWN else None


def has_zone(values: Bytes) -> Rows:
    """Return which times are on a clock of a known time zone: they end in one, or are UNIX times."""
    cells = as_matrix(values)
    if cells.shape[1] < _LENGTH:
        return np.ones(len(values), np.bool_)
    zone = np.isin(cells[:, _LENGTH:], list(b"+-ZTC")).any(axis=1)
    rows: Rows = (cells[:, 4] != ord("-")) | zone
    return rows


def _dates(cells: NDArray[np.uint8]) -> tuple[Floats, Rows]:
    """Return the seconds since 1970 of times such as 2026-01-05T08:00:00, and which are such times."""
    digits = cells[:, _DIGITS] - np.uint8(ord("0"))
    valid = (digits < 10).all(axis=1)
    valid &= (cells[:, 10] == ord("T")) | (cells[:, 10] == ord(" "))
    for place, mark in _MARKS.items():
        valid &= cells[:, place] == ord(mark)
    pairs = (digits[:, ::2] * np.uint8(10) + digits[:, 1::2]).astype(np.int64)
    century, years, month, day, hour, minute, second = pairs.T
    valid &= (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second <= 60)
    months = (12 * (100 * century + years - 1970) + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    valid &= (day >= 1) & (days.astype("datetime64[M]") == months)
    seconds = days.astype(np.int64) * 86_400.0 + (hour * 3600 + minute * 60 + second)
    return seconds, valid


def _whole_numbers(values: Bytes) -> tuple[Floats, Rows]:
    """Return the values of whole numbers of at most 15 digits, NaN for other texts, and their mask."""
    length = np.strings.str_len(values)
    is_whole = (length > 0) & (length <= _MAX_DIGITS)
    numbers = np.zeros(len(values), np.int64)
    digits = as_matrix(values) - np.uint8(ord("0"))
    for place in range(min(int(length.max(initial=0)), _MAX_DIGITS)):
        digit, inside = digits[:, place], place < length
        is_whole &= (digit < 10) | ~inside
        numbers = np.where(inside, 10 * numbers + digit, numbers)
    return np.where(is_whole, numbers, np.nan), is_whole


def whole_numbers(values: Bytes) -> tuple[NDArray[np.int64], Rows]:
    """Return whole numbers of at most 15 digits, -1 for other values, and which are such numbers."""
    numbers, is_whole = _whole_numbers(values)
    return np.where(is_whole, numbers, -1).astype(np.int64), is_whole


def _parse_others(
    values: Bytes,
    rows: Rows,
    numbers: Floats,
    condition: str,
    parse: Callable[[str], float | None],
    known: Iterable[str] = (),
) -> None:
    """Set the numbers of `rows` with a function that returns None for an invalid text."""
    cache: dict[bytes, float] = {}
    for k in np.flatnonzero(rows).tolist():
        value = values[k]
        if value not in cache:
            number = parse(value.decode(errors="replace").strip())
            if number is None:
                raise InvalidValue(k, condition, known)
            cache[value] = number
        numbers[k] = cache[value]


def _offset(suffix: str) -> float | None:
    """Return the fraction of a second less the offset of the time zone, s; None if they are invalid."""
    match = _ZONE.fullmatch(suffix)
    if match is None:
        return None
    fraction, zone = float(match[1] or 0), match[2]
    if zone is None or zone in ("Z", "UTC", "GMT"):
        return fraction
    digits = zone[1:].replace(":", "").ljust(4, "0")
    if int(digits[:2]) > 23 or int(digits[2:]) > 59:
        return None
    seconds = 3600 * int(digits[:2]) + 60 * int(digits[2:])
    return fraction + (seconds if zone[0] == "-" else -seconds)


def in_zone(seconds: Floats, zone: str) -> tuple[Floats, Rows]:
    """Return the UNIX times of local times of a zone, which are read as UTC, and which do not exist there.

    An hour that occurs twice, when clocks are set back, is taken as its first occurrence.  A time that does
    not exist, since clocks are set forward, is taken as if they were set forward after it.
    """
    from zoneinfo import ZoneInfo

    info = ZoneInfo(zone)
    quarters, inverse = np.unique(
        np.floor(seconds / 900), return_inverse=True
    )  # offsets of time zones change at quarters of an hour
    offsets, is_missing = np.full(len(quarters), np.nan), np.zeros(len(quarters), np.bool_)
    for k in np.flatnonzero(np.isfinite(quarters)).tolist():
        local = np.datetime64(int(quarters[k]) * 900, "s").astype(datetime)
        in_info = local.replace(tzinfo=info)
        offset = in_info.utcoffset()
        offsets[k] = 0.0 if offset is None else offset.total_seconds()
        is_missing[k] = in_info.astimezone(UTC).astimezone(info).replace(tzinfo=None) != local
    times: Floats = seconds - offsets[inverse]
    return times, is_missing[inverse]


def parse_durations(values: Bytes) -> Floats:
    """Return durations in s: [D-]HH:MM:SS, MM:SS, D-HH or D-HH:MM; NaN if unknown or unlimited."""
    cells = as_matrix(values)
    seconds, irregular = np.full(len(values), np.nan), np.ones(len(values), np.bool_)
    if cells.shape[1] >= 8:  # HH:MM:SS, the usual form
        digits = cells[:, [0, 1, 3, 4, 6, 7]] - np.uint8(ord("0"))
        usual = (digits < 10).all(axis=1) & (cells[:, 2] == ord(":")) & (cells[:, 5] == ord(":"))
        usual &= (digits[:, 2] < 6) & (digits[:, 4] < 6) & (cells[:, 8:] == 0).all(axis=1)
        parts = digits[:, ::2].astype(np.int64) * 10 + digits[:, 1::2]
        seconds[usual] = (parts @ np.array([3600, 60, 1]))[usual]
        irregular = ~usual
    _parse_others(values, irregular, seconds, _DURATION_TEXT, _duration, ("UNLIMITED", "Partition_Limit"))
    return seconds


def _duration(text: str) -> float | None:
    match = _DURATION.fullmatch(text)
    if match is None or (match[1] is None and match[3] is None) or (match[5] and not match[3]):
        return np.nan if text.lower() in UNKNOWN or text.lower() in _NO_LIMIT else None
    parts = [int(part) for part in match.groups()[1:4] if part is not None]
    if match[1] is not None:
        parts += [0] * (3 - len(parts))
    hours, minutes, seconds = [0] * (3 - len(parts)) + parts
    if (minutes > 59 and len(parts) == 3) or seconds > 59:
        return None
    days = int(match[1] or 0)
    return 86_400.0 * days + 3600.0 * hours + 60.0 * minutes + seconds + float(match[5] or 0)


def parse_numbers(values: Bytes) -> Floats:
    """Return numbers of at least 0; NaN if unknown or unlimited."""
    numbers, is_whole = _whole_numbers(values)
    _parse_others(values, ~is_whole, numbers, "a number of at least 0", _number)
    return numbers


def _number(text: str) -> float | None:
    number = parse_number(text)
    if number is not None and 0 <= number <= LARGEST_EXACT:
        return number
    return np.nan if text.lower() in UNKNOWN or text.lower() in _NO_LIMIT else None


def parse_counts(values: Bytes) -> Floats:
    """Return whole numbers of at least 0, which may end in K or M (thousands and millions)."""
    numbers = np.full(len(values), np.nan)
    all_rows = np.ones(len(values), np.bool_)
    _parse_others(values, all_rows, numbers, "a whole number of at least 0", _count)
    return numbers


def _count(text: str) -> float | None:
    factor = {"K": 1e3, "M": 1e6}.get(text[-1:].upper(), 1.0)
    number = parse_number(text[:-1] if factor > 1 else text)
    if number is not None and 0 <= number * factor <= LARGEST_COUNT and number * factor % 1 == 0:
        return number * factor
    return np.nan if text.lower() in UNKNOWN else None


def parse_memory(value: str) -> tuple[float, str]:
    """Return an amount of memory such as 4000M or 4Gn in KB, and its suffix: c per processor, n per node.

    The amount is NaN if it is unknown or cannot be read, as no run depends on it.
    """
    match = _MEMORY.fullmatch(value.strip())
    if match is None:
        return np.nan, ""
    factor = 1024.0 ** ("KMGTP".index(match[2].upper()) if match[2] else 1)
    return float(match[1]) * factor, match[3].lower()


def resource_amount(resources: str, name: str) -> str:
    """Return the amount of a resource in a list such as cpu=4,mem=16G,node=2; "" if it has none."""
    for part in resources.split(","):
        key, _, amount = part.partition("=")
        if key.strip() == name:
            return amount
    return ""


def number_names(column: TableColumn | None, rows: NDArray[np.bool_]) -> tuple[NDArray[np.int64], str]:
    """Return the number of the name of each row, and a header value that lists numbers and names.

    Names are numbered from 1 in order of their first appearance in `rows`; -1 is an unknown name.
    """
    if column is None:
        return np.full(len(rows), -1, np.int64), ""
    texts = column.texts()
    numbers = np.full(len(texts) or 1, -1, np.int64)
    names: dict[str, int] = {}
    used = column.rows(np.arange(len(texts)))[rows]
    first = np.full(len(texts), len(used), np.int64)
    np.minimum.at(first, used, np.arange(len(used)))
    for code in np.argsort(first, kind="stable").tolist():
        name = " ".join(texts[code].split())
        if first[code] < len(used) and not is_unknown(name):
            numbers[code] = names.setdefault(name, len(names) + 1)
    return column.rows(numbers), "\n".join(f"{number} {name}" for name, number in names.items())
