"""Rigid jobs by queue, user, account or site, and their waiting times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.studies.comparison_table import noun_of, waiting_unit
from gridsim.studies.overview import TextTable, convert_times
from gridsim.support.arguments import one_of
from gridsim.support.arrays import Floats, Integers

#: What jobs are grouped by.
Group = Literal["queue", "user", "account", "site"]
#: Largest number of groups in a table: those with the most core-hours.
_MAX_GROUPS = 20


class JobGroups(NamedTuple):
    """The jobs of a scenario by queue, user, account or site.

    Parameters
    ----------
    group
        What they are grouped by.
    names
        Name of each group.
    members
        The group of each job, int64[jobs].
    work
        Size of each job, Mflop, float64[jobs].
    """

    group: Group
    names: list[str]
    members: Integers
    work: Floats

    def rows(self, results: Mapping[str, Result]) -> list[dict[str, Any]]:
        """Return a row per group, those with the most core-hours first.

        A row has the name of the group, its number of jobs, its share of the core-hours, and the mean waiting
        time in each of `results` (s; None if no waiting time of the group is known).
        """
        count = len(self.names)
        jobs = np.bincount(self.members, minlength=count)
        share = np.bincount(self.members, self.work, count) / self.work.sum()
        rows = []
        for k in np.argsort(-share, kind="stable").tolist():
            columns = {
                name: result.applications["waiting"][self.members == k] for name, result in results.items()
            }
            known = {name: column[~np.isnan(column)] for name, column in columns.items()}
            means = {name: float(column.mean()) if len(column) else None for name, column in known.items()}
            row = {self.group: self.names[k], "jobs": int(jobs[k]), "core_hours_share": float(share[k])}
            rows.append({**row, "mean_waiting": means})
        return rows

    def waiting(self, results: Mapping[str, Result]) -> TextTable:
        """Return the table of mean waiting times in `results`, with a row for each group."""
        rows = self.rows(results)
        left = rows[_MAX_GROUPS:]
        share = 100.0 * sum(row["core_hours_share"] for row in left)
        noun = noun_of(results)
        head = [(self.group, ""), ("jobs", ""), (f"{noun}-hours", "%")]
        head += [("waiting", f"{name}, s") for name in results]
        cells = [
            [
                row[self.group],
                f"{row['jobs']}",
                f"{100.0 * row['core_hours_share']:.1f}",
                *("-" if mean is None else f"{mean:.6g}" for mean in row["mean_waiting"].values()),
            ]
            for row in rows[:_MAX_GROUPS]
        ]
        notes = [f"{len(left)} more {self.group}s have {share:.1f} % of the {noun}-hours"] if left else []
        table = TextTable(f"Mean waiting time by {self.group}", head, cells, notes)
        return convert_times(table, {"waiting": waiting_unit(results)})


def job_groups(group: Group, scenario: Scenario) -> JobGroups:
    """Return the jobs of a scenario by queue, user, account or site.

    Raises
    ------
    ScenarioError
        If `group` is none of these, the jobs are not rigid, or they have no queue, user, account or site.
    """
    one_of("by", group, get_args(Group))
    jobs = scenario.workload.realize(scenario.platform)
    if not jobs.rigid:
        raise ScenarioError(f"by = {group!r} requires rigid jobs, got bags of tasks")
    names, members = _sites(jobs, scenario) if group == "site" else jobs.members(group)
    return JobGroups(group, names, members, jobs.size)


def _sites(jobs: Applications, scenario: Scenario) -> tuple[list[str], Integers]:
    """Return the names of the sites that have jobs, and the one of each job, int64[jobs]."""
    if jobs.site is None:
        raise ScenarioError("by = 'site' requires a platform of sites, such as that of several logs")
    numbers, members = np.unique(jobs.site, return_inverse=True)
    names = scenario.platform.site_names
    return [names[k] if 0 <= k < len(names) else f"{k}" for k in numbers.tolist()], members
