"""Rigid jobs by queue, user, account or site, and their waiting times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.applications import Applications
from gridsim.model.scenario import Scenario
from gridsim.results.metrics.formulas import weighted_mean
from gridsim.results.result import Result
from gridsim.results.text import waiting_unit
from gridsim.studies.comparison_table import is_one_queue, noun_of
from gridsim.studies.overview import TextTable, convert_times, enumeration
from gridsim.support.arguments import one_of
from gridsim.support.arrays import Floats, Integers

#: What jobs are grouped by.
Group = Literal["queue", "user", "account", "site"]
#: Largest number of groups in a table: those with the most core-hours.
_MAX_GROUPS = 20


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

        A row has the name of the scenario, if there are several, the name of the group, its number of jobs,
        its share of the core-hours, and for each of `results` the mean waiting time (s; None if no waiting
        time of the group is known) and the number of rejected jobs, which have none.  A site also has its
        number of machines, its load, and for each of `results` the utilization of its machines (not of the
        log).
        """
        results, count = self._results_of_scenario(results), len(self.names)
        jobs = np.bincount(self.members, minlength=count)
        share = np.bincount(self.members, self.work, count) / self.work.sum()
        rows = []
        for k in np.argsort(-share, kind="stable").tolist():
            columns = {
                name: result.applications["waiting"][self.members == k] for name, result in results.items()
            }
            known = {name: column[~np.isnan(column)] for name, column in columns.items()}
            means = {name: float(column.mean()) if len(column) else None for name, column in known.items()}
            rejected = {
                name: int(result.applications["failed"][self.members == k].sum())
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

    def _results_of_scenario(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """Return those of `results` that belong to the scenario."""
        return {name: result for name, result in results.items() if self.runs is None or name in self.runs}

    def waiting(self, results: Mapping[str, Result]) -> TextTable:
        """Return the table of mean waiting times in `results`, with a row for each group.

        Results in which jobs were rejected have a column with their number, and sites have their load.
        """
        unit, results = waiting_unit(results.values()), self._results_of_scenario(results)
        rows = self.rows(results)
        left = rows[_MAX_GROUPS:]
        share = 100.0 * sum(row["core_hours_share"] for row in left)
        noun = noun_of(results)
        rejecting = [name for name in rows[0]["rejected"] if any(row["rejected"][name] for row in rows)]
        columns: list[tuple[str, str, list[str]]] = [
            (self.group, "", [row[self.group] for row in rows]),
            ("jobs", "", [f"{row['jobs']:,}" for row in rows]),
            (f"{noun}-hours", "%", [f"{100.0 * row['core_hours_share']:.1f}" for row in rows]),
        ]
        if self.sites is not None:
            columns.append(("machines", "", [f"{row['machines']:,}" for row in rows]))
            columns.append(("load", "", [f"{row['load']:.3g}" for row in rows]))
        for name in results:
            waits = [row["mean_waiting"][name] for row in rows]
            columns.append(
                ("waiting", f"{name}, s", ["-" if wait is None else f"{wait:.6g}" for wait in waits])
            )
        for name in rejecting:
            columns.append(("rejected", f"{name}, jobs", [f"{row['rejected'][name]:,}" for row in rows]))
        if self.sites is not None:
            for name in rows[0]["utilization"]:
                shares = [f"{100.0 * row['utilization'][name]:.1f}" for row in rows]
                columns.append(("busy", f"{name}, %", shares))
        notes = []
        if left:
            notes = [
                f"{len(left):,} more {self.group}s have {share:.1f} % of the {noun}-hours; --json has all of "
                "them"
            ]
        if self.sites is not None:
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
            notes.append("mean waiting times are of the jobs that were not rejected")
        cells = list(zip(*(texts[:_MAX_GROUPS] for _, _, texts in columns), strict=True))
        head = [(title, unit) for title, unit, _ in columns]
        of_scenario = f" ({self.label})" if self.label else ""
        table = TextTable(f"Mean waiting time by {self.group}{of_scenario}", head, cells, notes)
        return convert_times(table, {"waiting": unit})


def _fills_first_site(result: Result) -> bool:
    """Return whether jobs of all sites are in one queue and take the machines with the lowest numbers."""
    parameters, is_shared = result.scheduler["parameters"], "cores" in result.machines
    return is_one_queue(result) and not (is_shared and parameters.get("placement") == "spread")


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
    if group == "site":
        return _by_site(jobs, scenario)
    names, members = jobs.members(group)
    return JobGroups(group, names, members, jobs.size)


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
