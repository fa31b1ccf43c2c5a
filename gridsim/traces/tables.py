"""Tables in text with named columns, such as those of sacct and HTCondor, read fast.

The first line has the names of the columns.  Values are split at a separator, without quotes.  Free texts may
have the separator or newlines in them; the columns around them then tell where they end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridcore.common.names import closest
from gridsim.errors import TraceFormatError
from gridsim.support.files import StrPath
from gridsim.traces._text import Remark, format_error, text_blocks, truncate

#: Largest number of lines of one record.
_MAX_RECORD_LINES = 10_000
#: Number of names of unused columns that a remark lists.
_MAX_NAMES = 12


#: Largest number of bytes of a value that is parsed as a number or time; longer ones are cut, and invalid.
_MAX_NUMBER = 64
#: Largest number of bytes of a value that is compared with others as a row of an array.
_MAX_WIDTH = 256
#: Number of characters of text that are split at once.
_BATCH = 1 << 20
#: Number of bytes of a word, and masks that keep the first 0 to 8 of its bytes.
_WORD = 8
_MASKS = np.array([(1 << 8 * k) - 1 for k in range(_WORD + 1)], "<u8")
#: Odd multiplier of a hash, and number of slots of a table of values.
_FACTOR, _SLOTS = np.uint64(0x9E3779B97F4A7C15), 1 << 14
#: Number of values that are parsed at once.
_PART = 1 << 15

Bytes = NDArray[np.bytes_]


@dataclass(frozen=True)
class TableColumn:
    """Column of a table: its distinct values, and which of them each row has.

    Parameters
    ----------
    name
        Name of the column, as in the file.
    values
        Distinct values, or, for a column of numbers and times, the value of each row.
    codes
        int64[rows]; index of the value of each row.  None if each row has a value.
    """

    name: str
    values: list[str] | Bytes
    codes: NDArray[np.int64] | None = None

    def rows(self, of_values: NDArray[Any]) -> NDArray[Any]:
        """Return an array with an entry per row, from one with an entry per value."""
        return of_values if self.codes is None else of_values[self.codes]

    def index(self, row: int) -> int:
        """Return the index of the value of a row."""
        return row if self.codes is None else int(self.codes[row])

    def texts(self) -> list[str]:
        """Return the values as texts."""
        values = self.values
        return values if isinstance(values, list) else [value.decode() for value in values.tolist()]

    def bytes(self) -> Bytes:
        """Return the values in an array, cut off after `_MAX_NUMBER` bytes."""
        if not isinstance(self.values, list):
            return self.values
        return np.array([value.encode()[:_MAX_NUMBER] for value in self.values] or [b""], np.bytes_)

    def map(self, function: Callable[[str], Any], dtype: Any = np.float64) -> NDArray[Any]:
        """Return the value of `function` for each row; it is called once for each of the values."""
        return self.rows(np.array([function(value) for value in self.texts()], dtype))

    def has(self, character: str) -> NDArray[np.bool_]:
        """Return which rows have an ASCII character in their values."""
        return self.rows(np.strings.find(self.bytes(), character.encode()) >= 0)


def as_matrix(values: Bytes) -> NDArray[np.uint8]:
    """Return the bytes of values: uint8[values, longest], with 0 after the end of a value."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.itemsize)


@dataclass(frozen=True)
class AccountingTable:
    """Table of texts.

    Parameters
    ----------
    path
        The file.
    names
        Names of all columns of the file.
    columns
        Lower-case name -> column, for the columns that are kept.
    line
        int64[rows]; line of each row in the file.
    """

    path: str
    names: tuple[str, ...]
    columns: Mapping[str, TableColumn]
    line: NDArray[np.int64]

    @classmethod
    def of_rows(
        cls, path: StrPath, rows: Iterable[tuple[int, Mapping[str, str]]], kept_columns: Iterable[str]
    ) -> AccountingTable:
        """Return the table of (line, name -> value); a missing value is an empty text.

        Parameters
        ----------
        kept_columns
            Lower-case names of the columns that are kept.
        """
        names: dict[str, str] = {}
        codes: dict[str, dict[str, int]] = {name: {} for name in kept_columns}
        numbers: dict[str, list[int]] = {name: [] for name in codes}
        lines: list[int] = []
        for line, row in rows:
            lines.append(line)
            values = {name.lower(): value for name, value in row.items()}
            names |= {name.lower(): name for name in row if name.lower() not in names}
            for name, codes_of_name in codes.items():
                value = values.get(name, "")
                numbers[name].append(codes_of_name.setdefault(value, len(codes_of_name)))
        columns = {
            name: TableColumn(names[name], list(codes[name]), np.array(numbers[name], np.int64))
            for name in numbers
            if name in names
        }
        return cls(os.fspath(path), tuple(names.values()), columns, np.array(lines, np.int64))

    def __len__(self) -> int:
        return len(self.line)

    def get(self, *names: str) -> TableColumn | None:
        """Return the first of the columns that the table has; None if it has none of them."""
        return next(
            (self.columns[name.lower()] for name in names if name.lower() in self.columns),
            None,
        )

    def numbers(
        self, parse: Callable[[Bytes], NDArray[np.float64]], *names: str
    ) -> NDArray[np.float64] | None:
        """Return the numbers of the first of the columns that the table has; None if it has none of them.

        Parameters
        ----------
        parse
            Function of values that returns their numbers, or raises `InvalidValue`.
        """
        if (column := self.get(*names)) is None:
            return None
        try:
            return column.rows(_parse_in_parts(parse, column.bytes()))
        except InvalidValue as error:
            raise self.error(column, error) from None

    def with_texts(self, column: TableColumn, texts: list[str]) -> AccountingTable:
        """Return the table with other texts in place of the distinct values of a column."""
        changed = TableColumn(column.name, texts, column.codes)
        return replace(self, columns={**self.columns, column.name.lower(): changed})

    def error(self, column: TableColumn, error: InvalidValue) -> TraceFormatError:
        """Return the error about an invalid value of a column, with its line."""
        row = error.index if column.codes is None else int(np.argmax(column.codes == error.index))
        value = column.texts()[error.index]
        message = f"field {column.name} must be {error.condition}, got {truncate(value)!r}"
        if error.known and (hint := closest(error.known, value).rstrip()):
            message += f"; {hint}"
        return format_error(self.path, int(self.line[row]), message)

    def unused(self, known: Iterable[str]) -> Remark:
        """Return a remark on the columns of the file that are not `known` (lower-case names)."""
        used = set(known)
        names = [name for name in self.names if name and name.lower() not in used]
        text = ", ".join(names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        lines = np.full(len(names), 1, np.int64)
        return Remark(lines, f"columns that no run uses ({text}{more}), left out")


class InvalidValue(Exception):
    """Value of a column that cannot be read.

    Parameters
    ----------
    index
        Index of the value among the values of the column.
    condition
        What the value must be.
    known
        Valid names, of which the error suggests the closest one.
    """

    def __init__(self, index: int, condition: str, known: Iterable[str] = ()) -> None:
        super().__init__(condition)
        self.index, self.condition, self.known = index, condition, tuple(known)


def check_columns(
    path: StrPath, names: Sequence[str], needs: Mapping[str, tuple[str, ...]], hint: str
) -> None:
    """Check that a table has all columns that a log of jobs needs.

    Parameters
    ----------
    needs
        Description of a quantity -> alternatives of columns, each one or several names joined by "+".
    hint
        How to export a table that has the columns.

    Raises
    ------
    TraceFormatError
        If a quantity has no column; the error names them all.
    """
    present = {name.lower() for name in names}
    missing = {
        quantity: columns
        for quantity, columns in needs.items()
        if not any(set(column.lower().split("+")) <= present for column in columns)
    }
    if not missing:
        return
    texts = [f"{quantity} ({' or '.join(columns)})" for quantity, columns in missing.items()]
    wanted = {name for columns in missing.values() for column in columns for name in column.split("+")}
    message = f"the columns must include {' and '.join(texts)}, got {truncate(', '.join(names))}"
    known = {name.lower() for columns in needs.values() for column in columns for name in column.split("+")}
    for name in names:
        if name.lower() not in known and (suggestion := closest(wanted, name)):
            message += f"; for {name}, {suggestion.strip()}"
            break
    raise format_error(path, 1, f"{message}; {hint}")


@dataclass
class _Layout:
    """Names of the columns of a table, and the patterns of their values.

    Parameters
    ----------
    names
        Lower-case names in the order of the file.
    separator
        Text between two values; a blank for any white space.
    patterns
        Name -> pattern of its values, for some of the columns.
    texts
        Names of columns that may have the separator and newlines in their values.
    """

    names: list[str]
    separator: str
    patterns: Mapping[str, re.Pattern[str]]
    texts: frozenset[str]
    text_columns: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.text_columns = [k for k, name in enumerate(self.names) if name in self.texts]

    def matches(self, columns: Sequence[int], fields: Sequence[str]) -> bool:
        """Return whether the fields match the patterns of the columns."""
        return all(
            (pattern := self.patterns.get(self.names[k])) is None or pattern.fullmatch(word)
            for k, word in zip(columns, fields, strict=False)
        )

    def is_record(self, fields: list[str]) -> bool:
        """Return whether there is a field for each column, and most columns with a pattern match it.

        That also holds for most of those before the first text.
        """
        known = [k for k, name in enumerate(self.names) if name in self.patterns]
        if len(fields) != len(self.names):
            return False
        fits = {k: bool(fields[k]) and self.matches((k,), (fields[k],)) for k in known}
        prefix = [fits[k] for k in known if self.text_columns and k < self.text_columns[0]]
        return 2 * sum(fits.values()) > len(known) and 2 * sum(prefix) >= len(prefix)

    def begins_record(self, line: str, group: list[str]) -> bool:
        """Return whether a line begins a record, and does not continue a text of the `group` above it."""
        fields, width = line.split(self.separator), len(self.names)
        if not group:
            return True
        prefix = range(self.text_columns[0] if self.text_columns else width)
        known = [k for k in prefix[: len(fields)] if self.names[k] in self.patterns]
        if any(self.names[k] in self.patterns for k in prefix):
            has_prefix = len(fields) > len(prefix) or len(known) > 1
            if has_prefix and all(fields[k] and self.matches((k,), (fields[k],)) for k in known):
                return True
            return self.is_record(fields)
        return len(fields) >= width or (
            width - 1 not in self.text_columns and self.is_record("\n".join(group).split(self.separator))
        )

    def place(self, record: str, kept_columns: Sequence[int]) -> list[str] | None:
        """Return the values of a record with more separators than columns; None if they are not determined.

        Parameters
        ----------
        kept_columns
            Columns whose values have to be determined.  A text that is not determined is left out.
        """
        escape = "\\" + self.separator
        fields = re.split(rf"(?<!\\){re.escape(self.separator)}", record)
        if len(fields) == len(self.names) and self.matches(range(len(fields)), fields):
            return [value.replace(escape, self.separator) for value in fields]
        if not self.text_columns:
            return None
        fields = record.split(self.separator)
        columns = list(range(len(self.names)))
        values = self._match(columns, fields)
        if values is None or len(self.text_columns) == 1:
            return values
        backwards = self._match(columns[::-1], fields[::-1])
        if backwards is None or any(values[k] != backwards[-1 - k] for k in kept_columns):
            return None
        for k in self.text_columns:
            if values[k].split(self.separator) != backwards[-1 - k].split(self.separator)[::-1]:
                values[k] = ""
        return values

    def _match(self, columns: list[int], fields: list[str]) -> list[str] | None:
        """Return the values of the columns if each text is as short as possible; None if nothing fits."""
        values: list[str] = []
        at = 0
        texts = [place for place, k in enumerate(columns) if k in self.text_columns]
        if not self.matches(columns[: texts[0]], fields):
            return None
        values += fields[: texts[0]]
        at = texts[0]
        for place, following in zip(texts, [*texts[1:], None], strict=True):
            segment = columns[place + 1 : following]
            last = len(fields) - len(segment)
            ends = range(at + 1, last + 1) if following is not None else [last]
            for end in ends:
                if end > at and self.matches(segment, fields[end : end + len(segment)]):
                    break
            else:
                return None
            values += [self.separator.join(fields[at:end]), *fields[end : end + len(segment)]]
            at = end + len(segment)
        return values


def read_table(
    path: StrPath,
    separator: str,
    patterns: Mapping[str, re.Pattern[str] | None],
    *,
    texts: frozenset[str] = frozenset(),
    numbers: frozenset[str] = frozenset(),
) -> AccountingTable:
    """Read a table of texts whose first line names its columns.

    Parameters
    ----------
    separator
        Text between two values; a blank for any white space.
    patterns
        Lower-case name -> pattern of its values, or None for any; only these columns are kept.
    texts
        Lower-case names of columns that may have the separator and newlines in their values.  Of kept ones,
        these are replaced by blanks, and a value is empty if the columns around it do not tell where it ends.
    numbers
        Lower-case names of columns of numbers or times, with many different values.

    Raises
    ------
    TraceFormatError
        If a line has too few or too many fields, a column that is kept occurs twice, or the file cannot be
        read.
    """
    reader: _TableReader | None = None
    batch: list[str] = []
    number = 1
    with closing(text_blocks(path)) as blocks:
        for block in blocks:
            text = block.replace("\r\n", "\n").removesuffix("\r") if "\r" in block else block
            if reader is None:
                head, _, text = text.lstrip("\n").partition("\n")
                number += block.count("\n") + 1 - (text.count("\n") + 1 if text else 0)
                if not head.strip():
                    continue
                names = tuple(name.strip() for name in head.split(separator if separator != " " else None))
                reader = _TableReader(path, names, separator, patterns, texts, numbers)
                if not text:
                    continue
            batch.append(text)
            if len(batch) * len(block) >= _BATCH:
                number = reader.add("\n".join(batch), number)
                batch = []
    if reader is None:
        raise format_error(path, 1, "the first line must name the columns, got an empty file")
    reader.add("\n".join(batch), number, is_last=True)
    return reader.table()


class _TableReader:
    """Reader of a table in batches of lines.

    Records are first brought into a form with one line and the same number of separators each; then all
    fields of a column are copied at once.
    """

    def __init__(
        self,
        path: StrPath,
        names: tuple[str, ...],
        separator: str,
        patterns: Mapping[str, re.Pattern[str] | None],
        texts: frozenset[str],
        numbers: frozenset[str],
    ) -> None:
        lower = [name.lower() for name in names]
        self._path, self._names, self._separator = path, names, separator
        self._kept_columns = [k for k, name in enumerate(lower) if name in patterns]
        for k in self._kept_columns:
            if lower[k] in lower[:k]:
                raise format_error(path, 1, f"the names of columns must be unique, got {names[k]} twice")
        known = {name: pattern for name, pattern in patterns.items() if pattern is not None}
        self._layout = _Layout(lower, separator, known, texts)
        self._columns = {
            k: _NumberColumn() if lower[k] in numbers else _TextColumn() for k in self._kept_columns
        }
        self._lines: list[NDArray[np.int64]] = []
        self._rest: list[str] = []

    def add(self, text: str, number: int, is_last: bool = False) -> int:
        """Add lines, of which the first is line `number` of the file; return the number of the next line.

        The lines of the last record are kept for the next call, as its text may go on, unless `is_last`.
        """
        following = number + text.count("\n") + 1
        text, number = "\n".join([*self._rest, text]), number - len(self._rest)
        if not is_last:
            text, _, rest = text.rpartition("\n")
            self._rest = [rest]
            if not text:
                return following
        count = text.count("\n") + 1
        line, ends = np.arange(number, number + count), None
        if self._separator != " ":
            buffer, ends = self._fields(text, count)
        if ends is not None and self._rest and not self._layout.begins_record(self._rest[0], [text]):
            ends = None
        if ends is None:
            lines = text.split("\n") + ([] if is_last else self._rest)
            records, line = self._records(lines, number, is_last)
            if records:
                buffer, ends = self._fields("\n".join(records), len(records))
        if ends is not None:
            self._lines.append(line)
            for k, column in self._columns.items():
                # the first field of a line follows the last one of the line above
                starts = ends[:, k - 1] + 1 if k else np.append(0, ends[:-1, -1] + 1)
                column.add(buffer, starts, ends[:, k])
        return following

    def _fields(self, text: str, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64] | None]:
        """Return the bytes of lines, and the end of each field: int64[lines, columns].

        The ends are None if a line has another number of fields.
        """
        data = text.encode()
        buffer = np.frombuffer(data + b"\n" + bytes(_MAX_WIDTH + _WORD), np.uint8)
        content = buffer[: len(data) + 1]
        newline = content == ord("\n")
        ends = np.flatnonzero(newline | (content == ord(self._separator)))
        width = len(self._names)
        if len(ends) != count * width or not newline[ends[width - 1 :: width]].all():
            return buffer, None
        return buffer, ends.reshape(count, width)

    def _records(self, lines: list[str], number: int, is_last: bool) -> tuple[list[str], NDArray[np.int64]]:
        """Return records as lines with one field for each column, and the line of each record.

        Separators and newlines in texts are replaced by blanks.
        """
        last, separator = len(self._names) - 1, self._separator
        if separator == " ":
            lines = [" ".join(line.split()) for line in lines]
        counts = [*(line.count(separator) for line in lines), -1]
        records: list[str] = []
        numbers: list[int] = []
        group: list[str] = []

        def add_group(end: int) -> None:
            first = number + end - len(group)
            while group and not group[-1].strip():
                group.pop()
            if group:
                records.append(self._single_line(group, first))
                numbers.append(first)
            group.clear()

        for k, line in enumerate(lines):
            if group and (self._layout.begins_record(line, group) or len(group) == _MAX_RECORD_LINES):
                add_group(k)
            if not group and counts[k] == counts[k + 1] == last and line.strip():
                records.append(line)
                numbers.append(number + k)
            else:
                group.append(line)
        if is_last:
            add_group(len(lines))
        self._rest = group
        return records, np.array(numbers, np.int64)

    def _single_line(self, lines: list[str], number: int) -> str:
        """Return the lines of a record as one line, with one field for each column."""
        separator, layout, width = self._separator, self._layout, len(self._names)
        record = "\n".join(lines)
        count = record.count(separator) + 1
        if count == width and len(lines) == 1:
            return record
        fixed_columns = [k for k in self._kept_columns if k not in layout.text_columns]
        values = layout.place(record, fixed_columns) if count >= width else None
        for k in layout.text_columns if values is not None else ():
            assert values is not None
            values[k] = re.sub(rf"[\n{re.escape(separator)}]", " ", values[k])
        # a separator or a newline can only be in a text
        if values is None or any(separator in value or "\n" in value for value in values):
            raise self._line_error(lines, number)
        return separator.join(values)

    def _line_error(self, lines: list[str], number: int) -> TraceFormatError:
        """Return the error about lines from line `number` on, which are no record together."""
        separator, layout, width = self._separator, self._layout, len(self._names)
        following = (k for k in range(1, len(lines)) if lines[k].strip())
        is_first_whole = lines[0].count(separator) + 1 == width
        k = next(following, 0) if is_first_whole else 0
        fields = lines[k].split(separator)
        message = f"a line must have {width} fields, as many as the first, got {len(fields)}"
        if len(fields) == width:
            wrong = (c for c in range(width) if not layout.matches((c,), (fields[c],)))
            if (column := next(wrong, None)) is not None:
                message = f"field {self._names[column]} cannot be read, got {truncate(fields[column])!r}"
        return format_error(self._path, number + k, message)

    def table(self) -> AccountingTable:
        """Return the table of the lines so far."""
        columns = {
            self._layout.names[k]: column.column(self._names[k]) for k, column in self._columns.items()
        }
        line = np.concatenate([np.zeros(0, np.int64), *self._lines])
        return AccountingTable(os.fspath(self._path), self._names, columns, line)


def _cells(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], width: int
) -> NDArray[np.uint64]:
    """Return the bytes from each start to its end: uint64[starts, words], padded with 0.

    Parameters
    ----------
    width
        Largest number of bytes of a value, of which the number of words follows; longer values are cut.
    """
    words = -(-width // _WORD)
    void = np.dtype(f"V{_WORD * words}")
    windows = np.ndarray((len(buffer) - void.itemsize,), void, buffer, strides=(1,))
    cells = windows[starts].view("<u8").reshape(len(starts), words)
    length = ends - starts
    for k in range(int(length.min()) // _WORD, words):
        cells[:, k] &= _MASKS[np.clip(length - _WORD * k, 0, _WORD)]
    return cells


class _NumberColumn:
    """Values of a column with many different numbers or times, as bytes."""

    def __init__(self) -> None:
        self._parts: list[Bytes] = []

    def add(self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        width = min(max(int((ends - starts).max()), 1), _MAX_NUMBER)
        cells = _cells(buffer, starts, ends, width)
        self._parts.append(cells.view(f"S{_WORD * cells.shape[1]}").ravel())

    def column(self, name: str) -> TableColumn:
        values = np.concatenate([np.zeros(0, "S1"), *self._parts])
        return TableColumn(name, values)


class _TextColumn:
    """Distinct values of a column, and the value of each row.

    The values of earlier rows are looked up in tables, one for each number of words of a value, whose slots
    have a value and its code.
    """

    def __init__(self) -> None:
        self._codes: dict[bytes, int] = {}
        self._parts: list[NDArray[np.int64]] = []
        self._tables: dict[int, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}

    def add(self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        width = max(int((ends - starts).max()), 1)
        if width > _MAX_WIDTH:
            data = buffer.tobytes()
            values = [data[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)]
            self._parts.append(np.array([self._code(value) for value in values], np.int64))
            return
        words = _cells(buffer, starts, ends, width)
        count = words.shape[1]
        if count not in self._tables:
            self._tables[count] = np.zeros((_SLOTS, count), np.uint64), np.full(_SLOTS, -1)
        values_of_slots, codes_of_slots = self._tables[count]
        slots = _hash(words) % np.uint64(_SLOTS)
        codes = codes_of_slots[slots]
        rest = (codes < 0) | (values_of_slots[slots] != words).any(axis=1)
        if rest.any():
            texts = words[rest].view(f"S{_WORD * count}").ravel().tolist()
            codes[rest] = [self._code(text) for text in texts]
            values_of_slots[slots[rest]], codes_of_slots[slots[rest]] = words[rest], codes[rest]
        self._parts.append(codes)

    def _code(self, value: bytes) -> int:
        return self._codes.setdefault(value, len(self._codes))

    def column(self, name: str) -> TableColumn:
        texts = [value.decode() for value in self._codes]
        return TableColumn(name, texts, np.concatenate([np.zeros(0, np.int64), *self._parts]))


def _hash(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    key = words[:, 0] * _FACTOR
    for k in range(1, words.shape[1]):
        key = ((key >> np.uint64(29)) ^ words[:, k]) * _FACTOR
    return key >> np.uint64(32)


def _parse_in_parts(parse: Callable[[Bytes], NDArray[np.float64]], values: Bytes) -> NDArray[np.float64]:
    """Parse `values` as numbers, in parts that fit in the processor's cache: float64[n]."""
    parts = []
    for first in range(0, max(1, len(values)), _PART):
        try:
            parts.append(parse(values[first : first + _PART]))
        except InvalidValue as error:
            error.index += first
            raise
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
