"""The tables of a report as text, with the names and numbers of the printed results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gridsim.report.charts import Results, sample_values
from gridsim.results.result import Result
from gridsim.results.schema import COLUMN_UNITS
from gridsim.studies.comparison_table import scalar, scheduler_results
from gridsim.studies.overview import TextTable, file_tables, short_text

#: A table with more runs than this, and than values, has a row per run, not a column per run.
MAX_COLUMNS = 3
#: Key of the provenance -> its title in the table.
_PROVENANCE_TITLES = {
    "gridcore": "gridsim",  # one distribution contains both packages
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
_QUANTILES = {"minimum": 0, "25 %": 25, "median": 50, "75 %": 75, "95 %": 95, "maximum": 100}


def table_by_run(
    caption: str,
    values: Mapping[str, Mapping[str, str]],
    names: Sequence[str],
    max_columns: int = MAX_COLUMNS,
) -> TextTable:
    """Return a table with a column per run; if these exceed `max_columns` and the values, a row per run.

    Parameters
    ----------
    values
        Name of a value -> name of the run -> text.
    names
        Names of the runs.
    """
    if len(names) <= max(max_columns, len(values)):
        heads = ["", *(names if len(names) > 1 else ["value"])]
        rows = [[key, *(row.get(name, "-") for name in names)] for key, row in values.items()]
    else:
        heads = ["", *values]
        rows = [[name, *(row.get(name, "-") for row in values.values())] for name in names]
    return TextTable(caption, [(head, "") for head in heads], rows)


def quantiles(results: Results) -> list[TextTable]:
    """Return tables with quantiles of all charted values."""
    head = [("", ""), ("known", ""), *((name, "") for name in _QUANTILES)]
    views = []
    for quantity, (unit, samples) in sample_values(results).items():
        rows = []
        for name, values in samples.items():
            known = values[~np.isnan(values)]
            cells = np.percentile(known, list(_QUANTILES.values())).tolist() if len(known) else []
            cells_text = [short_text(cell) for cell in cells] or ["-"] * len(_QUANTILES)
            rows.append([name, f"{len(known)} of {len(values)}", *cells_text])
        views.append(TextTable(f"Quantiles of the {quantity}{f' ({unit})' if unit else ''}", head, rows))
    return views


def messages(results: Results) -> list[TextTable]:
    """Return the tables of messages and exchanges of each run with messages."""
    return [
        _table(f"{title}{f', {name}' if len(results) > 1 else ''}", table, result.tables[table])
        for name, result in results.items()
        for table, title in (
            ("messages", "Messages"),
            ("traffic", "Messages by level of the tree"),
            ("exchanges", "Exchanges of schedules"),
        )
        if len(result.tables.get(table, ())) and result.messages["sent"].any()
    ]


def _table(caption: str, name: str, table: Any) -> TextTable:
    units = COLUMN_UNITS.get(name, {})
    head = [(column.replace("_", " "), units.get(column, "")) for column in table]
    return TextTable(caption, head, [[text(cell) for cell in row.values()] for row in table.rows()])


def facts(results: Results) -> list[TextTable]:
    """Return the tables of reported facts and of parameters."""

    def views(mapping_of: Callable[[Result], Mapping[str, Any]], caption: str) -> list[TextTable]:
        keys = dict.fromkeys(
            key for r in results.values() for key, value in mapping_of(r).items() if _is_cell_value(value)
        )
        rows = {
            key: {name: text(mapping_of(r)[key]) for name, r in results.items() if key in mapping_of(r)}
            for key in keys
        }
        return [table_by_run(caption, rows, list(results))] if rows else []

    return [
        *views(lambda result: result.facts, "Facts reported by the schedulers"),
        *views(lambda result: result.scheduler["parameters"], "Parameters"),
    ]


def _is_cell_value(value: Any) -> bool:
    """Return whether a value is short enough for a cell: a scalar, or a list of scalars."""
    return value is None or scalar(value) or (isinstance(value, list) and all(map(scalar, value)))


def text(value: Any) -> str:
    """Return a value as the text of a cell; lists are cut after 12 entries."""
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(text, value[:12])) + (", ..." if len(value) > 12 else "")
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def provenance(results: Results) -> list[TextTable]:
    """Return the tables of versions, seed, time and memory, of digests, and of trace files."""
    runs = scheduler_results(results)
    names = list(runs)
    entries: dict[str, dict[str, str]] = {}
    for key, title in _PROVENANCE_TITLES.items():
        cells = {
            name: text(result.provenance[key])
            for name, result in runs.items()
            if result.provenance.get(key) is not None
        }
        if cells:
            entries[title] = cells
    head = [("result", ""), ("scheduler", "class"), ("digest", "SHA-256")]
    rows = [[name, result.scheduler["class"], result.digest] for name, result in runs.items()]
    tables = [table_by_run("Versions and resources", entries, names)] if entries else []
    tables.append(TextTable("Digests", head, rows))
    trace_files = (r.provenance.get("files", {}).items() for r in results.values())
    return [*tables, *file_tables(pair for run in trace_files for pair in run)]
