"""The tables of a report, as text, with the same words and numbers that results print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gridsim.plots.scales import clock
from gridsim.report.charts import distributed
from gridsim.results.result import Result
from gridsim.results.schema import COLUMN_UNITS
from gridsim.results.text import UNKNOWN
from gridsim.studies.comparison_table import NOT_CHARGED, scalar

Results = Mapping[str, Result]

#: Up to this many runs have a column each in a table; if there are more, each has a row.
BESIDE = 3
#: Entries of the provenance that a table shows -> their names there.
_MADE = {
    "gridcore": "gridsim",  # both packages are of one distribution
    "python": "Python",
    "implementation": "implementation",
    "numpy": "numpy",
    "system": "system",
    "seed": "seed",
    "threads": "threads",
    "processes": "processes that shared the run",
    "cohort_limit": "cohort limit",
    "clock_seconds": "clock at the end (s)",
    "events": "events",
    "wall_seconds": "wall time (s)",
    "peak_memory": "peak memory (B)",
}
_QUANTILES = {"least": 0, "quarter": 25, "median": 50, "three quarters": 75, "95 %": 95, "largest": 100}
_IN_SECONDS = re.compile(r"(?<![^ ])s$")  # "s", or "mean, s"
_FLOAT = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
_NUMBER = re.compile(rf"{_FLOAT.pattern}|\d+ of \d+|-|nan|inf|all|none")


@dataclass(frozen=True)
class TableView:
    """A table of text.

    Parameters
    ----------
    head
        Title of each column, with a second line (a unit).
    rows
        Cells; the first of a row is its name.
    """

    caption: str
    head: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    @cached_property
    def numeric(self) -> list[bool]:
        """For each column, whether all cells are numbers or stand for none; False for the first column."""
        columns = zip(*self.rows, strict=True)
        return [
            k > 0 and all(cell in (NOT_CHARGED, UNKNOWN) or _NUMBER.fullmatch(cell) for cell in column)
            for k, column in enumerate(columns)
        ]


def turned(caption: str, columns: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> TableView:
    """Return a table made of columns, which begin with their title.

    If the second entry of the first column is empty, the second entries are units and belong to the head.
    """
    below = 2 if columns[0][1] == "" else 1
    head = [(column[0], column[1] if below == 2 else "") for column in columns]
    return TableView(caption, head, list(zip(*(column[below:] for column in columns), strict=True)), notes)


def in_clock(columns: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return columns, with their unit as second entry; long times are in h or days, as in charts."""
    found = []
    for title, below, *cells in columns:
        times = [float(cell) for cell in cells if _FLOAT.fullmatch(cell)] if _IN_SECONDS.search(below) else []
        factor, unit = clock(max(times, default=0.0))
        if factor > 1.0:
            below = _IN_SECONDS.sub(unit, below)
            cells = [f"{float(cell) / factor:.6g}" if _FLOAT.fullmatch(cell) else cell for cell in cells]
        found.append([title, below, *cells])
    return found


def by_run(
    caption: str, values: Mapping[str, Mapping[str, str]], names: Sequence[str], beside: int = BESIDE
) -> TableView:
    """Return a table on runs, with a column per run, or a row per run if there are more than `beside`.

    Parameters
    ----------
    values
        Name of a value -> name of the run -> text.
    names
        Names of the runs.
    """
    if len(names) <= beside:
        heads = ["", *(names if len(names) > 1 else ["value"])]
        rows = [[key, *(row.get(name, "-") for name in names)] for key, row in values.items()]
    else:
        heads = ["", *values]
        rows = [[name, *(row.get(name, "-") for row in values.values())] for name in names]
    return TableView(caption, [(head, "") for head in heads], rows)


def quantiles(results: Results) -> list[TableView]:
    """Return tables with quantiles of the values whose distributions the charts show."""
    head = [("", ""), ("known", ""), *((name, "") for name in _QUANTILES)]
    found = []
    for what, (unit, samples) in distributed(results).items():
        rows = []
        for name, values in samples.items():
            known = values[~np.isnan(values)]
            cells = np.percentile(known, list(_QUANTILES.values())).tolist() if len(known) else []
            shown = [f"{cell:.6g}" for cell in cells] or ["-"] * len(_QUANTILES)
            rows.append([name, f"{len(known)} of {len(values)}", *shown])
        found.append(TableView(f"Quantiles of the {what}{f' ({unit})' if unit else ''}", head, rows))
    return found


def messages(results: Results) -> list[TableView]:
    """Return the tables on messages and exchanges, for each run that sent any."""
    return [
        _table(f"{title}{f', {name}' if len(results) > 1 else ''}", table, result.tables[table])
        for name, result in results.items()
        for table, title in (
            ("messages", "Messages"),
            ("traffic", "Messages by level of the tree"),
            ("exchanges", "Exchanges of schedules"),
        )
        if len(result.tables.get(table, ()))
    ]


def _table(caption: str, name: str, table: Any) -> TableView:
    units = COLUMN_UNITS.get(name, {})
    head = [(column.replace("_", " "), units.get(column, "")) for column in table]
    return TableView(caption, head, [[text(cell) for cell in row.values()] for row in table.rows()])


def facts(results: Results) -> list[TableView]:
    def listed(of: Callable[[Result], Mapping[str, Any]], caption: str) -> list[TableView]:
        keys = dict.fromkeys(key for r in results.values() for key, value in of(r).items() if _plain(value))
        rows = {key: {name: text(of(r)[key]) for name, r in results.items() if key in of(r)} for key in keys}
        return [by_run(caption, rows, list(results))] if rows else []

    return [
        *listed(lambda result: result.facts, "What the schedulers report"),
        *listed(lambda result: result.scheduler["parameters"], "Parameters"),
    ]


def _plain(value: Any) -> bool:
    """Whether a value can be shown in a cell."""
    return value is None or scalar(value) or (isinstance(value, list) and all(map(scalar, value)))


def text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(text, value[:12])) + (", ..." if len(value) > 12 else "")
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def provenance(results: Results) -> list[TableView]:
    """Return tables with versions, seed, time and memory; with digests; and with the trace files."""
    names = list(results)
    made: dict[str, dict[str, str]] = {}
    for key, title in _MADE.items():
        cells = {
            name: text(result.provenance[key])
            for name, result in results.items()
            if result.provenance.get(key) is not None
        }
        if cells:
            made[title] = cells
    head = [("result", ""), ("scheduler", "class"), ("digest", "SHA-256")]
    rows = [[name, result.scheduler["class"], result.digest] for name, result in results.items()]
    tables = [by_run("What made the results", made, names)] if made else []
    tables.append(TableView("Digests", head, rows))
    read = (r.provenance.get("files", {}).items() for r in results.values())
    return [*tables, *files(each for run in read for each in run)]


def files(read: Iterable[tuple[str, str]]) -> list[TableView]:
    """Return the table of the trace files, if any were read: pairs of a file and its SHA-256."""
    rows = list(dict.fromkeys(read))
    return [TableView("Trace files", [("file", ""), ("SHA-256", "")], rows)] if rows else []
