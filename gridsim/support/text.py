"""Conversion of values to text: numbers, times, names, aligned columns, wrapped lines, JSON."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from gridsim.errors import without_line_breaks

#: Width of a line (characters) if that of the terminal is unknown.
WIDTH = 100
#: Number of significant digits of numbers in texts and tables.
DIGITS = 4
_PLAIN = frozenset((str, bool, int, float, type(None)))

#: Characters that JSON may contain unescaped, but some terminals or encodings do not support.
_UNPRINTABLE = re.compile("[\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


@cache
def check_name(name: str) -> str:
    """Return `name` if it can name a table or column (letters, digits, _), else raise ValueError."""
    if not isinstance(name, str) or not (name.isidentifier() and name.isascii()):
        raise ValueError(
            f"the name of a table or column must be letters, digits and _, with no digit first, got {name!r}"
        )
    return name


def align(columns: list[list[str]], left: Collection[int] = ()) -> list[str]:
    """Return lines of right-aligned columns; the columns `left` are left-aligned.

    Line breaks and unprintable characters in a cell are replaced, so that each cell stays on its line and has
    its visible width.
    """
    columns = [[without_line_breaks(cell) for cell in column] for column in columns]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in zip(*columns, strict=True)
    ]


def wrap_columns(
    columns: list[list[str]], width: int, left: Collection[int] = (), keys: int = 1
) -> list[str]:
    """Return the lines of `align`, with the columns that exceed `width` in further blocks below.

    An empty line separates blocks.  Each block repeats the first `keys` columns, which identify the rows.
    """
    widths = [max(len(without_line_breaks(cell)) for cell in column) for column in columns]
    first = list(range(keys))
    least = sum(widths[:keys]) + 2 * (keys - 1)
    blocks, used = [[*first]], least
    for number, wide in enumerate(widths[keys:], keys):
        if used + 2 + wide > width and len(blocks[-1]) > keys:
            blocks.append([*first])
            used = least
        blocks[-1].append(number)
        used += 2 + wide
    lines: list[str] = []
    for block in blocks:
        aligned = align([columns[k] for k in block], [i for i, k in enumerate(block) if k in left])
        lines += ["", *aligned] if lines else aligned
    return lines


def wrap_text(text: str, width: int, indent: int = 0) -> list[str]:
    """Return a text as lines of at most `width` characters; all except the first are indented by `indent`."""
    return textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def number_text(value: float, digits: int = DIGITS, decimals: int | None = None) -> str:
    """Return a number with `digits` significant digits and commas between thousands, such as "12,340".

    Parameters
    ----------
    decimals
        The number of decimals in place of that of digits, as `common_decimals` returns it.
    """
    if decimals is not None and math.isfinite(value):
        return f"{round(value, decimals):,.{max(0, decimals)}f}"
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def common_decimals(values: Iterable[float], ends: Iterable[float] = ()) -> int | None:
    """Return the number of decimals of a column of numbers; None if they differ too widely for one.

    The largest number has `DIGITS` significant digits or up to two more, so that the smallest, if it is not
    0, has at least one less.  A negative number of decimals rounds to tens, hundreds and so on.

    Parameters
    ----------
    ends
        Ends of intervals in the same column; they matter only if fewer decimals are enough for all numbers.
    """
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    if not sizes:
        return None
    largest, smallest = (math.floor(math.log10(size)) for size in (max(sizes), min(sizes)))
    decimals = max(DIGITS - 1 - largest, DIGITS - 2 - smallest)
    if decimals > DIGITS + 1 - largest or largest >= 10 or smallest < -5:  # the latter have exponents
        return None
    texts = (f"{number:.{max(0, decimals)}f}" for number in (*sizes, *ends) if math.isfinite(number))
    return min(decimals, max(len(text.rstrip("0").partition(".")[2]) for text in texts))


def time_unit(span: float) -> tuple[float, str]:
    """Return the length (s) and the name of the unit in which a time of `span` s is shown."""
    if not span >= 2 * 3600.0:
        return 1.0, "s"
    return (3600.0, "h") if span < 3 * 86_400.0 else (86_400.0, "days")


def typical_unit(times: Iterable[float]) -> tuple[float, str]:
    """Return the length (s) and the name of the unit of time for numbers such as `times` (s).

    It is the unit of their median, the lower one of an even number; only positive, finite times count.
    """
    known = sorted(time for time in times if 0.0 < time < math.inf)
    return time_unit(known[(len(known) - 1) // 2] if known else 0.0)


def time_text(seconds: float) -> str:
    """Return a time with four digits and the unit that suits it, such as "33.96 s" or "17.3 days"."""
    length, unit = time_unit(seconds)
    return f"{number_text(seconds / length)} {unit}"


def plain(value: Any) -> Any:
    """Return `value` as dicts, lists, str, numbers, bools and None; raise TypeError for other values."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (str, bool, int, float)):
        # subclasses such as np.float64 become the plain type
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return kind(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): item if type(item) in _PLAIN else plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _PLAIN else plain(item) for item in value]
    raise TypeError(f"{value!r} is not a plain value")


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Return `value` as strict JSON: numbers that JSON does not have (NaN, infinity) become null."""

    def strict(item: Any) -> Any:
        if isinstance(item, float):
            return item if np.isfinite(item) else None
        if isinstance(item, dict):
            return {key: strict(entry) for key, entry in item.items()}
        return [strict(entry) for entry in item] if isinstance(item, list) else item

    text = json.dumps(strict(plain(value)), indent=indent, allow_nan=False, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
