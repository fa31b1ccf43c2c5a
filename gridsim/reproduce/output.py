"""Output files of a reproduction: tables, data, a figure, and the scenarios of its runs."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from gridsim.reproduce.framework import ExperimentRun, Report, Reproduction
from gridsim.reproduce.verdicts import conclude
from gridsim.results.metrics.estimates import LEVEL, MIN_SEEDS, Estimate
from gridsim.scheduling.description import describe
from gridsim.scheduling.registry import command
from gridsim.support.files import atomic_file
from gridsim.support.provenance import VERSION
from gridsim.support.text import to_json

#: Name of the scenarios' folder in the folder of a reproduction.
FOLDER = "scenarios"


def to_dict(experiment: Reproduction, report: Report, record: Sequence[ExperimentRun]) -> dict[str, Any]:
    """Return the report as plain values, for JSON."""
    return {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "claims": [conclude(claim, report.rows)._asdict() for claim in experiment.claims],
        "quick": report.quick,
        "seeds": list(report.seeds),
        "level": LEVEL,
        "rows": [asdict(row) for row in report.rows],
        "grids": [
            {
                "title": grid.title,
                "columns": list(grid.columns),
                "rows": {
                    name: [asdict(c) if isinstance(c, Estimate) else c for c in cells]
                    for name, cells in grid.rows.items()
                },
            }
            for grid in report.grids
        ],
        "remarks": list(report.remarks),
        "runs": [_run(item) for item in record],
    }


def _run(run: ExperimentRun) -> dict[str, Any]:
    """Return a run as plain values: its scenario, schedulers with commands, and the values of each seed."""
    file = f"{FOLDER}/{run.scenario.name}.toml"
    return {
        "scenario": file,
        "schedulers": {
            label: {**describe(scheduler), "command": command(file, scheduler)}
            for label, scheduler in run.schedulers.items()
        },
        "values": run.values.to_dict()["values"],
    }


def to_record(experiment: Reproduction, report: Report, day: str) -> dict[str, Any]:
    """Return the report as in `to_dict`, without runs, with estimates as text, and with its date and version.

    Parameters
    ----------
    day
        Date of the measurement, such as "2026-11-28".
    """
    record = {"date": day, "version": VERSION, **to_dict(experiment, report, ())}
    del record["runs"]
    for entry, row in zip(record["rows"], report.rows, strict=True):
        entry["measured"] = "" if row.measured is None else _cell(row.measured)
    for entry, grid in zip(record["grids"], report.grids, strict=True):
        entry["rows"] = {name: list(map(_cell, cells)) for name, cells in grid.rows.items()}
    return record


def to_toml(record: Mapping[str, Any]) -> str:
    """Return a record as TOML, with each row of a table and each remark on a line of its own."""
    tables = [key for key in ("claims", "rows", "grids") if record[key]]
    lines = [f"{key} = {_value(value)}" for key, value in record.items() if key not in (*tables, "remarks")]
    lines += ["remarks = [", *(f"    {_value(remark)}," for remark in record["remarks"]), "]"]
    for table in tables:
        for entry in record[table]:
            lines += ["", f"[[{table}]]"]
            lines += [f"{key} = {_value(value)}" for key, value in entry.items() if key != "rows"]
            if "rows" in entry:
                lines += ["", f"[{table}.rows]"]
                lines += [f"{_value(name)} = {_value(cells)}" for name, cells in entry["rows"].items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Return text, a number, a truth value or a list of these in TOML, which writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def markdown(experiment: Reproduction, report: Report) -> str:
    """Return the report as a page of Markdown tables, with intervals of means at the stated confidence."""
    lines = [f"# {experiment.name}: {experiment.title}", ""]
    if report.quick:
        lines += ["Quick run (`--quick`): verdicts are about a smaller experiment than the paper's.", ""]
    lines += [_seeds_text(len(report.seeds))]
    for claim in experiment.claims:
        _, verdict, reason = conclude(claim, report.rows)
        lines += ["", f"{claim}: **{verdict}{_mark(report)}** ({reason})", "", *_rows(claim, report)]
    if further := _rows("", report):
        lines += ["", "Also measured:", "", *further]
    for grid in report.grids:
        lines += ["", f"## {grid.title}", ""]
        rows = [[name, *map(_cell, cells)] for name, cells in grid.rows.items()]
        lines += _table(list(grid.columns), rows)
    if report.remarks:
        lines += ["", "## Remarks", "", *(f"- {remark}" for remark in report.remarks)]
    return "\n".join(lines) + "\n"


def _mark(report: Report) -> str:
    """Return the suffix of a verdict, which marks quick reports."""
    return " (quick)" if report.quick else ""


def _rows(claim: str, report: Report) -> list[str]:
    """Return the table of the rows about a claim; empty if there are none."""
    rows = [
        [
            row.quantity,
            row.unit,
            row.paper,
            "-" if row.measured is None else _cell(row.measured),
            row.verdict and f"{row.verdict}{_mark(report)}",
            row.why,
        ]
        for row in report.rows
        if row.claim == claim
    ]
    return _table(["quantity", "unit", "paper", "measured", "verdict", "why"], rows) if rows else []


def _seeds_text(count: int) -> str:
    if count == 1:
        return "Values of one seed: there are no intervals."
    narrow = ", which are too narrow for so few" if count < MIN_SEEDS else ""
    return f"Means over {count} seeds with {LEVEL:.0%} bootstrap intervals{narrow}."


def _cell(cell: Estimate | str) -> str:
    """Return the text of a cell, without the number of seeds and the level, which `_seeds_text` states."""
    if isinstance(cell, str):
        return cell
    if math.isnan(cell.low):
        return f"{cell.mean:.4g}" + (f" ({cell.note})" if cell.seeds > 1 else "")
    return f"{cell.mean:.4g} [{cell.low:.4g}, {cell.high:.4g}]"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(cell.replace("|", "\\|") or " " for cell in row) + " |" for row in rows),
    ]


def write_record(experiment: Reproduction, report: Report, folder: str) -> str:
    """Write folder/NAME.toml, whole or not at all, and return its path.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    path = os.path.join(folder, f"{experiment.name}.toml")
    with atomic_file(path) as stream:
        stream.write(to_toml(to_record(experiment, report, date.today().isoformat())).encode())
    return path


def write(
    experiment: Reproduction, report: Report, record: Sequence[ExperimentRun], folder: str
) -> list[str]:
    """Write folder/NAME/{table.md,table.json,figure.png} and scenarios/*.toml, each whole or not at all.

    The scenarios are those of the first seed.  Returns the paths.  Raises OSError, and ImportError without
    matplotlib.
    """
    from gridsim import plots

    place = os.path.join(folder, experiment.name)
    os.makedirs(os.path.join(place, FOLDER), exist_ok=True)
    picture = io.BytesIO()
    plots.save(experiment.draw(report), picture)
    files = {
        "table.md": markdown(experiment, report).encode(),
        "table.json": (to_json(to_dict(experiment, report, record)) + "\n").encode(),
        "figure.png": picture.getvalue(),
    }
    paths = []
    for name, content in files.items():
        paths.append(os.path.join(place, name))
        with atomic_file(paths[-1]) as stream:
            stream.write(content)
    for name, scenario in {run.scenario.name: run.scenario for run in record}.items():
        paths.append(os.path.join(place, FOLDER, f"{name}.toml"))
        scenario(report.seeds[0]).save(paths[-1])
    return paths
