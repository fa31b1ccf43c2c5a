"""Rigid jobs by queue, user or site, and their waiting times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.scenario import Scenario
from gridsim.results.result import Result
from gridsim.studies.overview import TextTable
from gridsim.support.arguments import one_of
from gridsim.support.arrays import Floats, Integers

#: What jobs are grouped by.
Group = Literal["queue", "user", "site"]
#: Largest number of groups in a table: those with the most core-hours.
_MAX_GROUPS = 20


class JobGroups(NamedTuple):
    """The jobs of a scenario by queue, user or site.

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

    def waiting(self, results: Mapping[str, Result]) -> TextTable:
        """Return the table of mean waiting times in `results`, with a row for each group."""
        count = len(self.names)
        jobs = np.bincount(self.members, minlength=count)
        share = 100.0 * np.bincount(self.members, self.work, count) / self.work.sum()
        largest = np.argsort(-share, kind="stable")[:_MAX_GROUPS]
        rows = []
        for k in largest.tolist():
            columns = (result.applications["waiting"][self.members == k] for result in results.values())
            known = [column[~np.isnan(column)] for column in columns]
            means = [f"{column.mean():.6g}" if len(column) else "-" for column in known]
            rows.append([self.names[k], f"{jobs[k]}", f"{share[k]:.1f}", *means])
        left = count - len(largest)
        note = f"{left} more {self.group}s have {100.0 - share[largest].sum():.1f} % of the core-hours"
        return TextTable(
            f"Mean waiting time by {self.group}",
            [
                (self.group, ""),
                ("jobs", ""),
                ("core-hours", "%"),
                *(("waiting", f"{name}, s") for name in results),
            ],
            rows,
            [note] if left else [],
        )


def job_groups(group: Group, scenario: Scenario) -> JobGroups:
    """Return the jobs of a scenario by queue, user or site.

    Raises
    ------
    ScenarioError
        If `group` is none of these, the jobs are not rigid, or they have no queue, user or site.
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
