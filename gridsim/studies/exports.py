"""Tables of studies as text for papers and other programs: LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gridsim.results.metrics.estimates import LEVEL, MIN_SEEDS, Estimate
from gridsim.results.table import Table
from gridsim.studies.overview import TextTable
from gridsim.support.text import common_decimals, number_text

#: Titles of the columns with intervals.
INTERVAL = f"{LEVEL:.0%} interval"


def mean_over(count: int, has_ratios: bool) -> str:
    """Return the text on the means and ratios in a table, with the number of replications."""
    ratios = "; ratios are geometric means" if has_ratios else ""
    caution = ", which is too narrow with so few" if 1 < count < MIN_SEEDS else ""
    return f"mean over {count} replication{'' if count == 1 else 's'} [{INTERVAL}{caution}]{ratios}"


#: Character -> its command in LaTeX.
_LATEX = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_LATEX_SPECIAL = re.compile("[" + re.escape("".join(_LATEX)) + "]")
_MARKDOWN_SPECIAL = re.compile(r"([\\|`*_<>])")


#: The content of a cell: an estimate, or its texts in one or more columns.
TableCell = Estimate | tuple[str, ...] | str


def estimate_cells(estimate: Estimate, decimals: int | None) -> list[str]:
    """Return two cells: an estimate, and its interval; ``-`` where there is none."""
    ends = estimate.mean, estimate.low, estimate.high
    mean, low, high = (number_text(end, decimals=decimals) for end in ends)
    has_interval = not math.isnan(estimate.low)
    return [mean, estimate.note if estimate.is_constant else f"[{low}, {high}]" if has_interval else "-"]


def text_rows(
    rows: Sequence[Sequence[TableCell]], write: Callable[[Estimate, int | None], list[str]]
) -> list[list[str]]:
    """Return rows as texts, in which the estimates of a column have one number of decimals.

    Parameters
    ----------
    write
        Function of an estimate and the number of decimals, or None, that returns its cells.
    """
    columns: list[list[list[str]]] = []
    for cells in zip(*rows, strict=True):
        estimates = [cell for cell in cells if isinstance(cell, Estimate)]
        ends = (end for estimate in estimates for end in (estimate.low, estimate.high))
        decimals = common_decimals((estimate.mean for estimate in estimates), ends)
        columns.append(
            [
                write(cell, decimals)
                if isinstance(cell, Estimate)
                else [cell]
                if isinstance(cell, str)
                else [*cell]
                for cell in cells
            ]
        )
    return [list(itertools.chain(*row)) for row in zip(*columns, strict=True)]


def paper_head(base: str | None) -> list[tuple[str, str]]:
    """Return the head of a table of means over replications, with ratios unless `base` is None."""
    titles = ["scheduler", "n", "mean", INTERVAL]
    return [(title, "") for title in (*titles, *([f"relative to {base}", INTERVAL] if base else []))]


def estimate_columns(estimate: Estimate | None, name: str = "mean") -> dict[str, float]:
    """Return the entries of an estimate and of its interval in a row, undefined without an estimate."""
    mean, low, high = (getattr(estimate, end, math.nan) for end in ("mean", "low", "high"))
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows with the same entries as a table."""
    return Table({name: [row[name] for row in rows] for name in rows[0]})


def table_of_rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows with different entries as a table.

    Entries that a row does not have are NaN, of columns of texts empty.
    """
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str | bool) for value in values):
            columns[name] = ["" if value is None else str(value) for value in values]
        else:
            columns[name] = [math.nan if value is None else value for value in values]
    return Table(columns)


def to_latex(tables: Iterable[TextTable]) -> str:
    """Return tables as LaTeX with the rules of the package booktabs, each as a ``table`` with a caption.

    The label of a table consists of the first words of its caption, such as ``tab:max-stretch``.
    """
    labels: dict[str, int] = {}
    parts = [r"% requires \usepackage{booktabs}"]
    for table in tables:
        words = re.findall(r"[a-z0-9]+", re.split(r"[,:;(\[]", table.caption.lower())[0])
        label = "-".join(words[:6]) or "table"
        labels[label] = labels.get(label, 0) + 1
        parts.append(_latex_table(table, label if labels[label] == 1 else f"{label}-{labels[label]}"))
    return "\n".join(parts)


def to_markdown(tables: Iterable[TextTable]) -> str:
    """Return tables as pipe tables of Markdown, each below its caption."""
    return "\n".join(map(_markdown_table, tables))


def to_csv(table: Table, units: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a table as CSV (RFC 4180); values that are not finite are empty.

    Parameters
    ----------
    units
        Column -> its unit, which the head shows in brackets, but not "1" and no note on a unit.
    """
    short = {name: units.get(name, "").partition(" (")[0] for name in table}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(name if unit in ("", "1") else f"{name} ({unit})" for name, unit in short.items())
    for row in table.rows():
        cells = row.values()
        writer.writerow("" if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in cells)
    return stream.getvalue()


def _latex_table(table: TextTable, label: str) -> str:
    columns = "".join("r" if numeric else "l" for numeric in table.numeric)
    head, *rows = (" & ".join(map(_latex, cells)) + r" \\" for cells in _lines(table))
    notes = [rf"\\ \footnotesize {_latex(note)}" for note in table.notes]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            *([rf"\caption{{{_latex(table.caption)}}}", rf"\label{{tab:{label}}}"] if table.caption else []),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def _latex(text: str) -> str:
    return _LATEX_SPECIAL.sub(lambda match: _LATEX[match[0]], text)


def _markdown_table(table: TextTable) -> str:
    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    head, *rows = ([_MARKDOWN_SPECIAL.sub(r"\\\1", cell) for cell in cells] for cells in _lines(table))
    lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
    parts = ["\n".join(lines), *table.notes]
    return "\n\n".join([table.caption, *parts] if table.caption else parts) + "\n"


def _lines(table: TextTable) -> list[list[str]]:
    """Return the head of a table, with units in brackets, and its rows."""
    head = [f"{title} ({unit})" if unit else title for title, unit in table.head]
    return [head, *map(list, table.rows)]
