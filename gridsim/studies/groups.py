"""Tables of the waiting times of rigid jobs by queue, user, account, site or size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from gridsim.results.comparability import has_equal_jobs
from gridsim.results.job_groups import Group, JobGroups, known_groups, rows_of_values
from gridsim.results.metrics.estimates import LEVEL, Estimate, estimate
from gridsim.results.metrics.formulas import mean
from gridsim.results.result import Result
from gridsim.results.text import waiting_unit
from gridsim.studies.comparison_table import comparable_rows, is_one_queue, noun_of, scheduler_results
from gridsim.studies.execution.cell import RunRecord
from gridsim.studies.overview import TextTable, convert_times, enumeration
from gridsim.studies.size_effect import size_change
from gridsim.support.arrays import Floats
from gridsim.support.text import number_text

#: Largest number of groups in a table: those with the most core-hours.
_MAX_GROUPS = 20
_OF_ACCEPTED = "mean waiting times are of the jobs that were not rejected"


def group_tables(groups: Sequence[JobGroups], results: Mapping[str, Result]) -> list[TextTable]:
    """Return a table of mean waiting times for each of `groups`, and their changes with other machines."""
    return [*(waiting_table(each, results) for each in groups), *_change_tables(groups, results)]


def waiting_table(groups: JobGroups, results: Mapping[str, Result]) -> TextTable:
    """Return the table of mean waiting times in `results`, with a row for each group.

    Results in which jobs were rejected have a column with their number, and sites have their load.
    """
    unit, results = waiting_unit(results.values()), groups.of_scenario(results)
    rows, noun = groups.rows(results), noun_of(results)
    columns = _first_columns(groups.group, noun, rows)
    if groups.sites is not None:
        columns.append(("machines", "", [f"{row['machines']:,}" for row in rows]))
        columns.append(("load", "", [f"{row['load']:.3g}" for row in rows]))
    for name in results:
        waits = [row["mean_waiting"][name] for row in rows]
        columns.append(("waiting", f"{name}, s", ["-" if wait is None else f"{wait:.6g}" for wait in waits]))
    rejecting = [name for name in rows[0]["rejected"] if any(row["rejected"][name] for row in rows)]
    for name in rejecting:
        columns.append(("rejected", f"{name}, jobs", [f"{row['rejected'][name]:,}" for row in rows]))
    if groups.sites is not None:
        for name in rows[0]["utilization"]:
            shares = [f"{100.0 * row['utilization'][name]:.1f}" for row in rows]
            columns.append(("busy", f"{name}, %", shares))
    notes = _note_on_others(groups.group, noun, rows)
    if groups.sites is not None:
        notes.append(
            "load: work submitted at the site / what its machines can do during submission; busy: until "
            "the last job of all sites ended, which may be later than in a run of the site alone"
        )
        first = [name for name, result in results.items() if _fills_first_site(result)]
        if first:
            notes.append(
                f"{enumeration(first)}: jobs take the machines of the first site first, so that a low "
                "share of another site does not mean that its machines are superfluous"
            )
    if rejecting:
        notes.append(_OF_ACCEPTED)
    of_scenario = f" ({groups.label})" if groups.label else ""
    table = _table(f"Mean waiting time by {groups.group}{of_scenario}", columns, notes)
    return convert_times(table, {"waiting": unit})


def _change_tables(groups: Sequence[JobGroups], results: Mapping[str, Result]) -> list[TextTable]:
    """Return a table by each group of what other numbers of machines change for the same jobs.

    A column is a scheduler on other machines than those of the first scenario, on which it runs as well.
    """
    tables = []
    for first in {each.group: each for each in reversed(groups)}.values():
        references = scheduler_results(first.of_scenario(results))
        pairs = [
            (name, base)
            for name, result in scheduler_results(results).items()
            for base, reference in references.items()
            if len(result.machines) != len(reference.machines)
            and result.scheduler == reference.scheduler
            and has_equal_jobs(result, reference)
        ]
        if not pairs:
            continue
        rows = first.rows(references)[:_MAX_GROUPS]
        members = [first.members == first.names.index(row[first.group]) for row in rows]
        columns = _first_columns(first.group, noun_of(results), rows)
        for name, base in pairs:
            cells = [size_change(results[name], results[base], is_member) for is_member in members]
            columns.append((name, f"from {base}", cells))
        interval = (
            f" [{LEVEL:.0%} interval over weeks]" if any("[" in c for _, _, cs in columns for c in cs) else ""
        )
        tables.append(_table(f"Change of the mean waiting time by {first.group}{interval}", columns, []))
    return tables


def numeric_group_rows(groups: JobGroups, results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Return the table of `waiting_table` as numbers: a row per group and result, for all groups."""
    rows = []
    for row in groups.rows(results):
        shared = {"by": groups.group, "group": row[groups.group], "applications": row["jobs"]}
        shared |= {"core_hours_share": row["core_hours_share"]}
        if groups.sites is not None:
            shared |= {"machines": row["machines"], "offered_load": row["load"]}
        for name, waiting in row["mean_waiting"].items():
            values = {key: row.get(key, {}).get(name) for key in ("rejected", "utilization")}
            rows.append({"scheduler": name, **shared, "mean_waiting": waiting, **values})
    return rows


def groups_of_results(by: Sequence[Group], results: Mapping[str, Result]) -> list[JobGroups]:
    """Return the jobs of results by each of `by`; results of the same jobs and machines share a table."""
    if not by:
        return []
    sets = [
        [row["name"] for row in rows] for rows in comparable_rows(results, [{"name": n} for n in results])
    ]
    runs = {enumeration(names): tuple(names) for names in sets}
    scenarios = {
        label: next(iter(scheduler_results({name: results[name] for name in names}).values())).scenario
        for label, names in runs.items()
    }
    return [
        group._replace(label=label if len(sets) > 1 else "", runs=runs[label])
        for label, group in known_groups(by, scenarios)
    ]


#: Title, unit and cells of each column.
_Columns = list[tuple[str, str, list[str]]]


def _first_columns(group: Group, noun: str, rows: Sequence[Mapping[str, Any]]) -> _Columns:
    return [
        (group, f"{noun}s" if group == "size" else "", [row[group] for row in rows]),
        (
            "jobs",
            "",
            [number_text(row["jobs"]) if row["jobs"] % 1 else f"{row['jobs']:,.0f}" for row in rows],
        ),
        (f"{noun}-hours", "%", [f"{100.0 * row['core_hours_share']:.1f}" for row in rows]),
    ]


def _note_on_others(group: Group, noun: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on the groups without a row; none if there are none."""
    others = rows[_MAX_GROUPS:]
    share = 100.0 * sum(row["core_hours_share"] for row in others)
    text = f"{len(others):,} more {group}s have {share:.1f} % of the {noun}-hours; --json has all of them"
    return [text] if others else []


def _table(caption: str, columns: _Columns, notes: Sequence[str]) -> TextTable:
    """Return a table of the first rows of columns."""
    cells = list(zip(*(texts[:_MAX_GROUPS] for _, _, texts in columns), strict=True))
    return TextTable(caption, [(title, unit) for title, unit, _ in columns], cells, notes)


def _fills_first_site(result: Result) -> bool:
    """Return whether jobs of all sites are in one queue and take the machines with the lowest numbers."""
    parameters, is_shared = result.scheduler["parameters"], "cores" in result.machines
    return is_one_queue(result) and not (is_shared and parameters.get("placement") == "spread")


class GroupMeans(NamedTuple):
    """Waiting times of rigid jobs by queue, user, account, site or size, over replications.

    Parameters
    ----------
    group
        What jobs are grouped by.
    values
        Scheduler -> for each replication, name of a group -> its values, those of
        `gridsim.results.job_groups.JobGroups.rows`; None for a run that failed.
    """

    group: Group
    values: Mapping[str, Sequence[Mapping[str, Mapping[str, float]] | None]]

    def rows(self, count: int | None = None) -> list[dict[str, Any]]:
        """Return a row per group, those with the most core-hours first.

        A row has the name of the group, its mean number of jobs and share of the core-hours over the
        replications in which it has jobs, and for each scheduler an `Estimate` of the mean waiting time (s)
        over them and the mean number of rejected jobs.

        Parameters
        ----------
        count
            Number of rows that have the waiting times, which take long to estimate; None for all.
        """
        runs = [run for column in self.values.values() for run in column if run is not None]
        rows: list[dict[str, Any]] = []
        for name in dict.fromkeys(name for run in runs for name in run):
            own = [run[name] for run in runs if name in run]
            row: dict[str, Any] = {self.group: name}
            row |= {key: mean(np.array([each[key] for each in own])) for key in ("jobs", "core_hours_share")}
            rows.append(row)
        rows.sort(key=lambda row: -row["core_hours_share"])
        for row in rows[:count]:
            waiting, rejected = (self._columns(row[self.group], key) for key in ("mean_waiting", "rejected"))
            row["mean_waiting"] = {scheduler: estimate(column) for scheduler, column in waiting.items()}
            row["rejected"] = {scheduler: mean(column) for scheduler, column in rejected.items()}
        return rows

    def _columns(self, name: str, key: str) -> dict[str, Floats]:
        """Return scheduler -> its values of a group in the replications with jobs; NaN for failed runs."""
        columns = {
            scheduler: [
                np.nan if run is None else run[name][key] for run in runs if run is None or name in run
            ]
            for scheduler, runs in self.values.items()
        }
        return {scheduler: np.array(column) for scheduler, column in columns.items() if column}

    def table(self, noun: str, unit: tuple[float, str]) -> TextTable:
        """Return the table of mean waiting times with intervals.

        Parameters
        ----------
        noun
            What the machines are called, "core" or "node".
        unit
            Length (s) and name of the unit of waiting times.
        """
        rows, (length, unit_name) = self.rows(_MAX_GROUPS), unit
        columns = _first_columns(self.group, noun, rows)
        for scheduler in self.values:
            waits: list[Estimate | None] = [row["mean_waiting"].get(scheduler) for row in rows[:_MAX_GROUPS]]
            texts = ["-" if wait is None else wait.scale(1.0 / length).format() for wait in waits]
            columns.append((scheduler, unit_name, texts))
        notes = _note_on_others(self.group, noun, rows)
        if any(count for row in rows[:_MAX_GROUPS] for count in row["rejected"].values()):
            notes.append(_OF_ACCEPTED)
        replications = len(next(iter(self.values.values())))
        caption = f"Mean waiting time by {self.group}, mean over {replications} replications"
        caption += f" [{LEVEL:.0%} interval]"
        return _table(caption, columns, notes)

    def plain_rows(self) -> list[dict[str, Any]]:
        """Return `rows` with estimates as dicts."""
        return [
            {**row, "mean_waiting": {name: asdict(wait) for name, wait in row["mean_waiting"].items()}}
            for row in self.rows()
        ]


def group_means(by: Sequence[Group], records: Mapping[str, Sequence[RunRecord]]) -> tuple[GroupMeans, ...]:
    """Return the waiting times by each of `by` in `records`: scheduler -> a record per replication."""
    return tuple(
        GroupMeans(
            group,
            {
                name: [None if each.error else rows_of_values(group, each.values) for each in column]
                for name, column in records.items()
            },
        )
        for group in by
    )
