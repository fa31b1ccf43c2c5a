"""Rows and columns of the table that compares several schedulers, for all places where it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.results.metrics.bounds import BOUND_LIMIT
from gridsim.results.metrics.registry import BoundKind
from gridsim.results.result import Result

Row = dict[str, Any]
# A column: its head, its unit, and a function that returns the text for a row of `rows_of`.
_Cells = tuple[str, str, Callable[[Row], str]]


def measure_of(results: Mapping[str, Result]) -> str:
    """Return the metric by which schedulers are compared.

    It is mean_waiting for rigid jobs, mean_turnaround for jobs that may move, mean_completion for work
    queues, and max_stretch otherwise.

    Raises ScenarioError if only some of the results are for rigid jobs.
    """
    kinds = {result.rigid for result in results.values()}
    if len(kinds) > 1:
        raise ScenarioError("results must all be of rigid jobs or all of bags to be compared, got both")
    if kinds == {True}:
        return "mean_waiting"
    for table, measure in (("jobs", "mean_turnaround"), ("cycles", "mean_completion")):
        if all(table in result.tables for result in results.values()):
            return measure
    return "max_stretch"


def ratio_of(results: Mapping[str, Result], name: str, baseline: str) -> float:
    """Return the metric of comparison of `name` divided by that of the baseline (NaN if both are 0)."""
    measure = measure_of(results)
    mine, other = (getattr(results[each], measure) for each in (name, baseline))
    if other:
        return float(mine / other)
    return math.inf if mine else math.nan


def rows_of(results: Mapping[str, Result], baseline: str, bound: BoundKind) -> list[Row]:
    """Return one row per scheduler: its name here, the ratio to the baseline, and `Result.summary`."""
    return [
        {"name": name, "ratio": ratio_of(results, name, baseline), **result.summary(bound)}
        for name, result in results.items()
    ]


def about(results: Mapping[str, Result], baseline: str) -> dict[str, str]:
    """Return lines of text by key: platform, workload and load of the first result, and the baseline."""
    lines = next(iter(results.values())).describe_scenario()
    lines["baseline"] = f"{baseline} (its {measure_of(results).replace('_', ' ')} counts as 1)"
    return lines


def columns_of(
    results: Mapping[str, Result], rows: Sequence[Row], baseline: str, bound: BoundKind
) -> list[list[str]]:
    """Return the columns as text: each has its title, a second title line (a unit), then a value per row."""
    columns = [["scheduler", "", *(row["name"] for row in rows)]]
    rigid = measure_of(results) == "mean_waiting"
    for title, below, cell in (
        *(_of_jobs(baseline) if rigid else _of_bags(results, rows, baseline, bound)),
        ("makespan", "s", lambda row: f"{row['makespan']:.1f}"),
        ("busy", "%", lambda row: f"{100 * row['utilization']:.1f}"),
        ("messages", "", lambda row: f"{row['messages']}"),
        ("traffic", "MB", lambda row: f"{row['bytes'] / 1e6:.2f}"),
        ("wall", "s", lambda row: f"{row['wall_seconds'] or math.nan:.2f}"),
        ("digest", "", lambda row: row["digest"][:16]),
    ):
        columns.append([title, below, *map(cell, rows)])
    return columns


def remarks(rows: Sequence[Row], bound: BoundKind) -> list[str]:
    """Return lines with the facts that each scheduler reports, and one that says why there is no bound."""
    lines = []
    for row in rows:
        facts = (f"{key} {_short(value)}" for key, value in row["facts"].items() if scalar(value))
        if said := ", ".join(facts):
            lines.append(f"{row['name']}: {said}")
    if any(row["gap"] is None and "mean_waiting" not in row for row in rows):
        lines.append(f"no {bound} bound: it is computed for up to {BOUND_LIMIT} applications")
    return lines


def scalar(value: Any) -> bool:
    """Whether a fact or a parameter is short enough for a line: a text, a number, or true or false."""
    return isinstance(value, (str, bool, int, float))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _of_bags(
    results: Mapping[str, Result], rows: Sequence[Row], baseline: str, bound: BoundKind
) -> tuple[_Cells, ...]:
    largest = max(row["max_stretch"] for row in rows)
    exponent = -8  # as in the fair tree papers, unless that makes long numbers
    while largest / 10.0**exponent >= 1e6:
        exponent += 3
    unit = f"1e{exponent} s/Mflop"
    return (
        ("completed", "tasks", lambda row: _completed(results[row["name"]])),
        ("max stretch", unit, lambda row: f"{row['max_stretch'] / 10.0**exponent:.5g}"),
        ("mean", f"1e{exponent}", lambda row: f"{row['mean_stretch'] / 10.0**exponent:.5g}"),
        ("relative", f"to {baseline}", lambda row: f"{row['ratio']:.3f}"),
        ("over the", f"{bound} bound", lambda row: f"{row['gap']:.3f}" if row["gap"] else "-"),
        ("S * s_agg", "max", lambda row: f"{row['max_stretch_agg']:.5g}"),
        *(_of_turnaround() if any("migrated" in row for row in rows) else ()),
        *(_of_cycles() if any("wasted" in row for row in rows) else ()),
    )


def _of_turnaround() -> tuple[_Cells, ...]:
    def cell(name: str, digits: int, factor: float = 1.0) -> Callable[[Row], str]:
        return lambda row: f"{factor * row[name]:.{digits}g}" if name in row else "-"

    return (
        ("turnaround", "mean, s", cell("mean_turnaround", 6)),
        ("migrated", "%", cell("migrated", 4, 100.0)),
    )


def _of_cycles() -> tuple[_Cells, ...]:
    return (
        ("completion", "mean, s", lambda row: f"{row['mean_completion']:.6g}"),
        ("wasted", "%", lambda row: f"{100 * row['wasted']:.3g}" if "wasted" in row else "-"),
    )


def _of_jobs(baseline: str) -> tuple[_Cells, ...]:
    return (
        ("rejected", "jobs", lambda row: f"{row['failed']}"),
        ("waiting", "mean, s", lambda row: f"{row['mean_waiting']:.6g}"),
        ("relative", f"to {baseline}", lambda row: f"{row['ratio']:.3f}"),
        ("waiting", "median, s", lambda row: f"{row['median_waiting']:.6g}"),
        ("slowdown", "mean", lambda row: f"{row['mean_slowdown']:.4g}"),
    )


def _completed(result: Result) -> str:
    done, given = int(result.machines["tasks"].sum()), int(result.applications["tasks"].sum())
    return "all" if done == given else f"{done} of {given}"
