"""Rigid jobs by queue, user, account, site or size, and their waiting times in results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gridsim.errors import ModelWarning, ScenarioError, warn
from gridsim.model.applications import Applications
from gridsim.model.scenario import Scenario
from gridsim.results.metrics.formulas import weighted_mean
from gridsim.results.result import Result
from gridsim.support.arguments import one_of
from gridsim.support.arrays import Floats, Integers

#: What jobs are grouped by.
Group = Literal["queue", "user", "account", "site", "size"]
#: Ratio of the largest sizes of successive groups by size: 1, 2 to 8, 9 to 64 cores, and so on.
_SIZE_RATIO = 8


class SiteMachines(NamedTuple):
    """The machines of the sites of a scenario.

    Parameters
    ----------
    site
        The site of each machine, as an index of the sites that have jobs, int64[machines].
    load
        Of each site, its work over what its machines can do between the first and the last release.
    """

    site: Integers
    load: Floats

    def row(self, k: int, results: Mapping[str, Result]) -> dict[str, Any]:
        """Return the number of machines of site k, its load, and its utilization in each of `results`."""
        is_own = self.site == k
        utilization = {}
        for name, result in results.items():
            if not result.of_log:
                machines = result.machines
                cores = machines["cores"] if "cores" in machines else np.ones(len(self.site), np.int64)
                utilization[name] = weighted_mean(machines["utilization"][is_own], cores[is_own])
        return {"machines": int(is_own.sum()), "load": float(self.load[k]), "utilization": utilization}


class JobGroups(NamedTuple):
    """The jobs of a scenario by queue, user, account, site or size.

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
    sites
        The machines of the groups if these are sites.
    label
        Name of the scenario, if there are several.
    runs
        Names of the results of the scenario; None if all are.
    """

    group: Group
    names: list[str]
    members: Integers
    work: Floats
    sites: SiteMachines | None = None
    label: str = ""
    runs: tuple[str, ...] | None = None

    def rows(self, results: Mapping[str, Result]) -> list[dict[str, Any]]:
        """Return a row per group, those with the most core-hours first.

        A row has the name of the scenario, if there are several, the name of the group, its number of jobs
        that count, its share of the core-hours, and for each of `results` the mean waiting time (s; None if
        no waiting time of the group is known) and the number of rejected jobs, which have none.  A site also
        has its number of machines, its load, and for each of `results` the utilization of its machines (not
        of the log).
        """
        results, count = self.of_scenario(results), len(self.names)
        is_counted = next(iter(results.values())).is_counted
        jobs = np.bincount(self.members[is_counted], minlength=count)
        share = (
            np.bincount(self.members[is_counted], self.work[is_counted], count) / self.work[is_counted].sum()
        )
        rows = []
        for k in np.argsort(-share, kind="stable")[: np.count_nonzero(jobs)].tolist():
            is_member = {name: result.is_counted & (self.members == k) for name, result in results.items()}
            columns = {
                name: result.applications["waiting"][is_member[name]] for name, result in results.items()
            }
            known = {name: column[~np.isnan(column)] for name, column in columns.items()}
            means = {name: float(column.mean()) if len(column) else None for name, column in known.items()}
            rejected = {
                name: int(result.applications["failed"][is_member[name]].sum())
                for name, result in results.items()
                if not result.of_log
            }
            row: dict[str, Any] = {"scenario": self.label} if self.label else {}
            row |= {self.group: self.names[k], "jobs": int(jobs[k]), "core_hours_share": float(share[k])}
            row |= {"mean_waiting": means, "rejected": rejected}
            if self.sites is not None:
                row |= self.sites.row(k, results)
            rows.append(row)
        return rows

    def of_scenario(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """Return those of `results` that belong to the scenario."""
        return {name: result for name, result in results.items() if self.runs is None or name in self.runs}


def checked_groups(by: Sequence[Group]) -> tuple[Group, ...]:
    """Return what jobs are grouped by; raise ScenarioError unless each entry is a `Group` and occurs once."""
    for group in by:
        one_of("by", group, get_args(Group))
        if list(by).count(group) > 1:
            raise ScenarioError(f"by must have each entry once, got {group!r} several times")
    return tuple(by)


def job_groups(group: Group, scenario: Scenario) -> JobGroups:
    """Return the jobs of a scenario by queue, user, account, site or size.

    Sizes are numbers of cores, or of machines that are nodes of several: 1, 2-8, 9-64, 65-512 and so on.

    Raises
    ------
    ScenarioError
        If `group` is none of these, the jobs are not rigid, or they have no queue, user, account or site.
    """
    one_of("by", group, get_args(Group))
    return _groups_of(scenario.workload.realize(scenario.platform), group, scenario)


def known_groups(by: Sequence[Group], scenarios: Mapping[str, Scenario]) -> list[tuple[str, JobGroups]]:
    """Return the label of a scenario and its jobs by each of `by`, for all scenarios whose jobs state it.

    There is a `ModelWarning` for each one that the jobs of a scenario do not state.

    Raises
    ------
    ScenarioError
        If `by` is invalid, the jobs are not rigid, or no scenario has any of `by`.
    """
    names, entries = checked_groups(by), []
    for label, scenario in scenarios.items() if names else ():
        jobs = scenario.workload.realize(scenario.platform)
        entries += [(label, scenario, jobs, group) for group in names]
    is_any_known = any(_is_stated(jobs, group) for _, _, jobs, group in entries)
    groups = []
    for label, scenario, jobs, group in entries:
        if is_any_known and jobs.rigid and not _is_stated(jobs, group):
            owner = f" of {label}" if len(scenarios) > 1 else ""
            warn(f"by {group}: no table, since the jobs{owner} have no {group}s", ModelWarning)
        else:
            groups.append((label, _groups_of(jobs, group, scenario)))
    return groups


def _is_stated(jobs: Applications, group: Group) -> bool:
    """Return whether jobs have a queue, user, account, site or size."""
    return group == "size" or getattr(jobs, group) is not None


def _groups_of(jobs: Applications, group: Group, scenario: Scenario) -> JobGroups:
    if not jobs.rigid:
        raise ScenarioError(f"by = {group!r} requires rigid jobs, got bags of tasks")
    if group == "site":
        return _by_site(jobs, scenario)
    if group == "size":
        return _by_size(jobs)
    names, members = jobs.members(group)
    return JobGroups(group, names, members, jobs.size)


#: Entries of a row of `JobGroups.rows` that `group_values` has.
_VALUES = ("jobs", "core_hours_share", "mean_waiting", "rejected")


def group_values(by: Iterable[Group], result: Result) -> dict[str, float]:
    """Return the rows of `JobGroups` for one result as named numbers, as records of runs have them.

    A name is such as "user anna: mean_waiting"; `rows_of_values` reads it.
    """
    values = {}
    for group in by:
        for row in job_groups(group, result.scenario).rows({"": result}):
            for name in _VALUES:
                value = row[name][""] if isinstance(row[name], dict) else row[name]
                values[f"{group} {row[group]}: {name}"] = math.nan if value is None else float(value)
    return values


def rows_of_values(group: Group, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return name -> row of the groups in `values`, which may also have other entries."""
    rows: dict[str, dict[str, float]] = {}
    for key, value in values.items():
        kind, _, rest = key.partition(" ")
        if kind == group and rest:
            name, _, entry = rest.rpartition(": ")
            rows.setdefault(name, {})[entry] = value
    return rows


def _by_size(jobs: Applications) -> JobGroups:
    """Return the jobs by their numbers of cores or nodes, without groups that have no jobs."""
    highs = _SIZE_RATIO ** np.arange(12)
    numbers, members = np.unique(np.searchsorted(highs, jobs.width), return_inverse=True)
    names = [f"{highs[k - 1] + 1}-{highs[k]}" if k else "1" for k in numbers.tolist()]
    return JobGroups("size", names, members, jobs.size)


def _by_site(jobs: Applications, scenario: Scenario) -> JobGroups:
    """Return the jobs by site, without sites that have no jobs."""
    if jobs.site is None:
        raise ScenarioError("by = 'site' requires a platform of sites, such as that of several logs")
    numbers, members = np.unique(jobs.site, return_inverse=True)
    platform = scenario.platform
    sites = platform.site_names
    names = [sites[k] if 0 <= k < len(sites) else f"{k}" for k in numbers.tolist()]
    if platform.machine_site is None or numbers[0] < 0:  # a job without a home
        return JobGroups("site", names, members, jobs.size)
    site = np.full(platform.nodes, -1)
    for k, number in enumerate(numbers.tolist()):
        site[platform.machine_site == number] = k
    speeds = platform.speeds if platform.cores is None else platform.speeds * platform.cores
    speed = np.bincount(site[site >= 0], speeds[site >= 0], len(names))
    work = np.bincount(members, jobs.size, len(names))
    with np.errstate(all="ignore"):
        load = work / (speed * float(np.ptp(jobs.release)))
    return JobGroups("site", names, members, jobs.size, SiteMachines(site, load))
