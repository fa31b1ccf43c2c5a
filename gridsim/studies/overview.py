"""The presentation of a study: facts, tables, a conclusion and remarks, as text and as HTML for notebooks.

Studies fill in an `Overview`.  Its parts are arranged here, and for pages in `gridsim.report.contents`: the
conclusion is last in a text, where a terminal shows it, and first in HTML and on a page.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from gridsim.errors import one_line
from gridsim.results.metrics.registry import MESSAGE_METRICS
from gridsim.results.text import NOT_RANKED, UNKNOWN
from gridsim.support import html
from gridsim.support.text import WIDTH, number_text, typical_unit, wrap_columns, wrap_text

#: Text for the messages of a scheduler that sees the whole grid.
NOT_CHARGED = "not charged"
_NO_FACTS: Mapping[str, str] = MappingProxyType({})
#: Number of runs that failed for the same reason up to which each gets a line.
_MAX_FAILURE_LINES = 5
#: Least width of the terms of facts (characters), so that facts that are printed apart are aligned.
_TERM_WIDTH = 12
_NUMBER = re.compile(r"[-+<]?[\d.,]+(e[-+]?\d+)?|[\d,]+ of [\d,]+|-|nan|inf|all|none")
_FLOAT = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
_IN_SECONDS = re.compile(r"(?:^|(?<=, ))s$")  # "s", or "mean, s"


@dataclass(frozen=True)
class TextTable:
    """A table of texts.

    Parameters
    ----------
    head
        Title and unit of each column; the unit may be empty.
    rows
        Cells of each row; the first one is the name of the row.
    notes
        Sentences below the table.
    dispensable
        Titles of columns that a text leaves out, in this order, if a line is too short for all of them.
    keys
        Number of the first columns, which identify a row; they are repeated if columns follow below.
    """

    caption: str
    head: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    dispensable: Sequence[str] = ()
    keys: int = 1

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether each column has only numbers and missing values; False for the first column."""
        columns = zip(*self.rows, strict=True)
        return [
            k > 0
            and all(cell in (NOT_CHARGED, UNKNOWN, NOT_RANKED) or _NUMBER.fullmatch(cell) for cell in column)
            for k, column in enumerate(columns)
        ]

    @property
    def left(self) -> list[int]:
        """The numbers of the columns that are left-aligned: all but numbers with units."""
        return [k for k, numeric in enumerate(self.numeric) if not (numeric and self.has_units)]

    @property
    def columns(self) -> list[list[str]]:
        """The columns, each with its title, its unit if any column has one, and its cells."""
        heads = [[title, unit] if self.has_units else [title] for title, unit in self.head]
        return [[*title, *cells] for title, cells in zip(heads, zip(*self.rows, strict=True), strict=True)]

    @property
    def has_units(self) -> bool:
        """Whether any column has a unit."""
        return any(unit for _, unit in self.head)


def failure_lines(errors: Iterable[tuple[str, str]], runs: int) -> list[str]:
    """Return lines on runs that failed.

    Parameters
    ----------
    errors
        Name and error of each run that failed.
    runs
        The number of all runs.
    """
    names_by_error: dict[str, list[str]] = {}
    for name, error in errors:
        names_by_error.setdefault(one_line(error), []).append(name)
    lines = []
    for error, names in names_by_error.items():
        if len(names) == runs > 1:
            lines.append(f"failed: all {runs} runs: {error}")
            continue
        lines += [f"failed: {name}: {error}" for name in names[:_MAX_FAILURE_LINES]]
        if len(names) > _MAX_FAILURE_LINES:
            lines.append(f"failed: {len(names) - _MAX_FAILURE_LINES} more runs, for the same reason")
    return lines


def short_text(value: float) -> str:
    """Return a number with three significant digits, such as "12,300"; "<0.001" if it is almost 0."""
    if 0.0 < value < 0.0005:
        return "<0.001"
    return number_text(value, 3)


def value_text(value: float, unit: tuple[float, str]) -> str:
    """Return a value in the unit with this length and name, as `short_text`, and the name."""
    length, name = unit
    return f"{short_text(value / length)} {name}".rstrip()


def convert_times(table: TextTable, units: Mapping[str, tuple[float, str]] | None = None) -> TextTable:
    """Return a table with long times in h or days; columns of one title have one unit.

    Parameters
    ----------
    units
        Title of columns -> length (s) and name of their unit; by default that of their median.  These
        columns have three digits, as `short_text`.
    """
    columns = list(zip(*table.rows, strict=True))
    times: dict[str, list[float]] = {}
    for (title, unit_line), cells in zip(table.head, columns, strict=True):
        if _IN_SECONDS.search(unit_line):
            times.setdefault(title, []).extend(float(cell) for cell in cells if _FLOAT.fullmatch(cell))
    chosen = {title: typical_unit(values) for title, values in times.items()}
    chosen |= units or {}
    head = []
    for k, (title, unit_line) in enumerate(table.head):
        length, unit = chosen.get(title, (1.0, "s"))
        if _IN_SECONDS.search(unit_line):
            unit_line = _IN_SECONDS.sub(unit, unit_line)
            write = short_text if title in (units or ()) else number_text
            columns[k] = tuple(
                write(float(cell) / length) if _FLOAT.fullmatch(cell) else cell for cell in columns[k]
            )
        head.append((title, unit_line))
    return replace(table, head=head, rows=list(zip(*columns, strict=True)))


def not_charged_note(metric: str, names: Sequence[str]) -> list[str]:
    """Return the note on the schedulers that a table of a metric of messages leaves out; none without any."""
    return [f"{NOT_CHARGED} for messages: {', '.join(names)}"] if metric in MESSAGE_METRICS and names else []


def enumeration(names: Sequence[str], max_count: int = 4) -> str:
    """Return names as an enumeration, "a, b and c"; beyond `max_count`, the first names and a count."""
    if len(names) > max_count:
        return f"{', '.join(names[: max_count - 1])} and {len(names) - max_count + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def file_tables(files: Iterable[tuple[str, str]]) -> list[TextTable]:
    """Return the table of trace files and their SHA-256, or no table if none were read."""
    rows = list(dict.fromkeys(files))
    return [TextTable("Trace files", [("file", ""), ("SHA-256", "")], rows)] if rows else []


def paired_with(baseline: str | None) -> dict[str, str]:
    """Return the line on the baseline of paired replications; no line without one."""
    if baseline is None:
        return {}
    return {
        "baseline": f"{baseline}, to which the others are compared in pairs of runs with equal seeds; ratios "
        "are geometric means over the pairs"
    }


def facts_text(facts: Mapping[str, str], width: int = WIDTH) -> str:
    """Return facts, term -> line of text, as aligned and wrapped lines."""
    longest = max([_TERM_WIDTH, *map(len, facts)])
    lines = (wrap_text(f"{term:<{longest}}  {line}", width, longest + 2) for term, line in facts.items())
    return "\n".join(itertools.chain.from_iterable(lines))


@dataclass(frozen=True)
class Overview:
    """The parts of a study that are shown.

    Parameters
    ----------
    facts
        What was run: term -> line of text.
    tables
        The tables of the results.
    conclusion
        A sentence on the best scheduler; may be empty.
    remarks
        Sentences on what the tables do not show.
    failures
        Lines on runs that failed, and on goals that were not reached.
    records
        Tables that identify runs and files, for pages only.
    title
        What was compared, for pages only.
    """

    facts: Mapping[str, str]
    tables: Sequence[TextTable]
    conclusion: str = ""
    remarks: Sequence[str] = ()
    failures: Sequence[str] = ()
    records: Sequence[TextTable] = ()
    title: str = ""


def queue_order_lines(orders: Mapping[str, str | None]) -> list[str]:
    """Return a line if machines run their queues in different orders: scheduler -> its promised order."""
    if not {"edf", "fifo"} <= {*orders.values()}:
        return []
    texts = (
        f"{words} ({enumeration([name for name in orders if orders[name] == order])})"
        for order, words in (("edf", "by earliest deadline"), ("fifo", "first in, first out"))
    )
    return [f"machines run their queues {', '.join(texts)}; the attribute local_order sets this"]


def as_text(overview: Overview, width: int = WIDTH, plan: Mapping[str, str] = _NO_FACTS) -> str:
    """Return an overview as text.

    Parameters
    ----------
    plan
        Facts that are left out, since they were printed before the runs.
    width
        Characters of a line.  Columns of a table beyond that are left out if they are dispensable, or else
        follow below.
    """
    facts = {term: line for term, line in overview.facts.items() if plan.get(term) != line}
    lines = [facts_text(facts, width)] if facts else []
    lines += ["", *overview.failures] if overview.failures else []
    for table in overview.tables:
        lines += ["", *_table_lines(table, width)]
        for note in table.notes:
            lines += wrap_text(note, width, 2)
    lines.append("")
    for remark in overview.remarks:
        lines += wrap_text(remark, width, 2)
    lines += wrap_text(overview.conclusion, width) if overview.conclusion else []
    text = "\n".join(lines).strip("\n")
    return f"\n{text}" if plan and not facts else text


def as_html(overview: Overview) -> str:
    """Return an overview as HTML for notebooks."""
    tables = (
        html.table(
            table.columns,
            heads=1 + table.has_units,
            left=table.left,
            caption=table.caption,
        )
        + html.text(*table.notes)
        for table in overview.tables
    )
    facts = html.pairs(overview.facts) if overview.facts else ""
    return (
        facts
        + html.text(overview.conclusion)
        + "".join(tables)
        + html.text(*overview.remarks, *overview.failures)
    )


def _table_lines(table: TextTable, width: int) -> list[str]:
    """Return the lines of a table; below a caption they are indented."""
    columns = table.columns
    if not (table.has_units or _fits(columns, width - 2 * bool(table.caption))):
        columns = _with_folded_heads(columns)
    if table.caption:
        columns[0] = [f"  {cell}" for cell in columns[0]]
    caption = wrap_text(table.caption, width, 2) if table.caption else []
    kept = _fitting(columns, table.dispensable, width)
    left = [kept.index(k) for k in table.left if k in kept]
    return [*caption, *wrap_columns([columns[k] for k in kept], width, left, table.keys)]


def _with_folded_heads(columns: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return columns whose titles, such as "network.latency", are folded to the width of their cells."""
    heads = []
    for title, *cells in columns:
        width, lines = max(map(len, cells), default=0), [""]
        for part in re.findall(r".+?(?:[. ]|$)", title):
            if lines[-1] and len(f"{lines[-1]}{part}".rstrip()) > width:
                lines.append("")
            lines[-1] += part
        heads.append([line.rstrip() for line in lines])
    height = max(map(len, heads))
    return [
        [*[""] * (height - len(lines)), *lines, *cells]
        for lines, (_, *cells) in zip(heads, columns, strict=True)
    ]


def _fits(columns: Iterable[Sequence[str]], width: int) -> bool:
    """Return whether columns are at most `width` characters wide together."""
    return sum(2 + max(map(len, column)) for column in columns) - 2 <= width


def _fitting(columns: list[list[str]], dispensable: Sequence[str], width: int) -> list[int]:
    """Return the indices of columns, without dispensable columns if the others then fit."""
    for count in range(len(dispensable) + 1):
        kept = [k for k, column in enumerate(columns) if column[0] not in dispensable[:count]]
        if _fits([columns[k] for k in kept], width):
            return kept
    return list(range(len(columns)))


def availability_line(means: Iterable[float]) -> dict[str, str]:
    """Return a line on the mean availability of machines in several runs; none if they were always up."""
    texts = [number_text(each, 3) for each in sorted(means)]
    if not texts or texts[0] == "1":
        return {}
    span = texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
    return {"up": f"mean availability {span}; machines that are down count in the load"}
