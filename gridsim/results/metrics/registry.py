"""Registry of the metrics of a result, with their units.

To add a metric, write a method of `Metrics` with the decorator `metric`.  Results, summaries, comparisons,
replications, sweeps, stores, ladders and the reference page of outputs then include it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.optimization.bounds import (
    BOUND_LIMIT,
    DISCRETE_LIMIT,
    Bound,
    fluid_bound,
    shared_discrete_bound,
)
from gridsim.results.metrics import formulas
from gridsim.results.metrics.energy import JOULES_PER_KWH
from gridsim.results.metrics.window import counted_applications
from gridsim.results.table import Table
from gridsim.support.arguments import short_repr
from gridsim.support.arrays import Floats, Integers

#: A metric defined by the user: a function of a `Result`.
MetricFunction = Callable[[Any], float]
BoundKind = Literal["best", "fluid", "preemptive", "discrete"]


class Metric(property):
    """A property that is a metric; the decorator `metric` creates it.

    Parameters
    ----------
    unit, note
        Unit and explanation, such as "1" and "max stretch / lower bound".
    requirement
        The table, or table.column, that a result must have for the metric; "" if all results have the metric.
    selectable
        Whether `METRICS` contains the metric, so that studies can select it.  Summaries contain all metrics.
    of_bags
        Whether summaries of rigid jobs leave the metric out.

    Attributes
    ----------
    name
        Name of the metric.  A leading underscore of the property is removed; the property has one if a table
        or method of a result has the plain name.
    """

    def __init__(
        self,
        function: Callable[[Any], float],
        unit: str,
        note: str,
        requirement: str,
        selectable: bool,
        of_bags: bool = False,
    ) -> None:
        super().__init__(function)
        self.function = function
        self.name = function.__name__.lstrip("_")
        self.unit, self.note, self.requirement, self.selectable = unit, note, requirement, selectable
        self.of_bags = of_bags

    @overload
    def __get__(self, result: None, owner: type | None = None) -> Metric: ...
    @overload
    def __get__(self, result: object, owner: type | None = None) -> float: ...
    def __get__(self, result: Any, owner: type | None = None) -> Any:
        return super().__get__(result, owner)

    def __call__(self, result: Any) -> float:
        """Return the value of the metric for a result."""
        return self.function(result)

    @property
    def text(self) -> str:
        """Description of the metric in one line, the first paragraph of its docstring."""
        return (self.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()

    def has(self, tables: Mapping[str, Table]) -> bool:
        """Return whether the summary of a result with these tables has the metric."""
        if self.of_bags and "failed" in tables["applications"]:
            return False
        table, _, column = self.requirement.partition(".")
        return not table or (table in tables and (not column or column in tables[table]))


def metric(
    unit: str, note: str = "", *, requirement: str = "", selectable: bool = True, of_bags: bool = False
) -> Callable[[Callable[[Any], float]], Metric]:
    """Return a decorator that turns a method into a `Metric`, described by the docstring of the method."""
    return lambda function: Metric(function, unit, note, requirement, selectable, of_bags)


def _cycles_metric(name: str, text: str) -> Metric:
    def total(self: Metrics) -> float:
        return formulas.total(self._cycles_column(name))

    total.__name__, total.__doc__ = name, text
    return Metric(total, "Mflop", "", "cycles", False)


def _sum_metric(name: str, unit: str, text: str) -> Metric:
    def total(self: Metrics) -> float:
        return int(self._counted_column(name).sum())

    total.__name__, total.__doc__ = name, text
    return Metric(total, unit, "", f"applications.{name}", False)


class Metrics:
    """The metrics of a result, in the order of a summary.

    A metric that does not apply to the result, such as the waiting time of bags, is NaN.  Applications that
    are released in the first `skip_days` days do not count in metrics of applications; metrics of machines,
    messages and the whole workload cover the whole run.
    """

    #: Number of days at the beginning whose applications do not count.
    skip_days: float = 0.0

    tables: Mapping[str, Table]
    facts: Mapping[str, Any]

    @property
    def of_log(self) -> bool:
        """Whether this is the schedule of a job log, which states neither messages nor machines of tasks."""
        return False

    def _messages_total(self, column: str) -> float:
        """Return the sum of a column of the table ``messages``; NaN for a job log."""
        return math.nan if self.of_log else int(self.messages[column].sum())

    def _machine_total(self, column: str) -> float:
        """Return the sum of a column of the table ``machines``; NaN if it has no such column."""
        return formulas.total(self.machines[column]) if column in self.machines else math.nan

    @cached_property
    def _bounds(self) -> dict[BoundKind, Bound]:
        return {}

    @cached_property
    def _linear_metrics(self) -> dict[str, float | None]:
        """The metrics of a summary that take time linear in the number of applications."""
        return {
            name: metric(self)
            for name, metric in SUMMARY.items()
            if name not in _QUADRATIC_METRICS and metric.has(self.tables)
        }

    @property
    def applications(self) -> Table:
        """A row per application, in order of release."""
        return self.tables["applications"]

    @property
    def machines(self) -> Table:
        """A row per machine."""
        return self.tables["machines"]

    @property
    def messages(self) -> Table:
        """A row per kind of message."""
        return self.tables["messages"]

    @property
    def rigid(self) -> bool:
        """Whether the applications are rigid jobs."""
        return "failed" in self.applications

    @cached_property
    def is_counted(self) -> NDArray[np.bool_]:
        """Whether each application counts in metrics, bool[applications]; see `skip_days`."""
        return counted_applications(self.applications["release"], self.skip_days)

    def _counted_column(self, name: str) -> NDArray[Any]:
        """Return the column `name` of the applications that count."""
        column: NDArray[Any] = self.applications[name]
        return column[self.is_counted] if self.skip_days else column

    def _cycles_column(self, name: str) -> Floats:
        """Return the column `name` of the table ``cycles``, for the applications that count."""
        column: Floats = self.tables["cycles"][name]
        return column[self.is_counted] if self.skip_days else column

    @cached_property
    def _completed(self) -> NDArray[np.bool_]:
        """Whether each application counts and was completed, so neither rejected nor cancelled."""
        finish: Floats = self.applications["finish"]
        return ~np.isnan(finish) & self.is_counted if self.skip_days else ~np.isnan(finish)

    @cached_property
    def _all_completed(self) -> bool:
        return bool(self._completed.all())

    def _completed_column(self, name: str) -> Floats:
        """Return the column `name` of the completed applications."""
        column: Floats = self.applications[name]
        return column if self._all_completed else column[self._completed]

    def _rigid_column(self, name: str) -> Floats:
        """Return the column `name` of the completed rigid jobs; empty for bags."""
        return self._completed_column(name) if self.rigid else np.zeros(0)

    @property
    def width(self) -> Integers:
        """Number of cores that each application uses at a time if all its tasks run: int64[applications].

        A task uses one core unless the application states more.
        """
        table = self.applications
        width: Integers = table["tasks"] * table["cores"] if "cores" in table else table["tasks"]
        return width

    @property
    def core_count(self) -> int:
        """Number of cores of all machines; a machine has one unless it states more."""
        return int(self.machines["cores"].sum()) if "cores" in self.machines else len(self.machines)

    @property
    def _rigid_width(self) -> Integers:
        """`width` of the completed rigid jobs; empty for bags."""
        if not self.rigid:
            return np.zeros(0, np.int64)
        return self.width if self._all_completed else self.width[self._completed]

    def _fact(self, name: str) -> float:
        """Return the fact `name` of the scheduler; NaN if the scheduler does not state it."""
        value = self.facts.get(name)
        return math.nan if value is None else float(value)

    def _jobs_column(self, name: str) -> Floats:
        """Return the column `name` of the table ``jobs``, for the applications that count.

        It is empty if the result has no such table.
        """
        if (jobs := self.tables.get("jobs")) is None:
            return np.zeros(0)
        column: Floats = jobs[name]
        return column[self.is_counted[jobs["application"]]] if self.skip_days else column

    @property
    def migrates(self) -> bool | None:
        """Whether tasks that have begun may migrate; None if unknown."""
        return None

    def kind_of_bound(self, kind: BoundKind = "best") -> BoundKind:
        """Return the kind of bound that `bound` computes for `kind`.

        The best one is ``"preemptive"`` if tasks may migrate, if tasks of an application differ in size, or
        if the number of applications times machines exceeds `DISCRETE_LIMIT`; otherwise it is ``"discrete"``.

        Raises
        ------
        ScenarioError
            If there is no such kind.
        """
        if check_bound(kind) != "best":
            return kind
        pairs = len(self.applications) * len(self.machines)
        if "largest_task" in self.applications or pairs > DISCRETE_LIMIT:
            return "preemptive"
        return "discrete" if self.migrates is False else "preemptive"

    def bound(self, kind: BoundKind = "best") -> Bound:
        """Return a lower bound of the largest stretch of any schedule of these applications and machines.

        The bound is computed from the tables on first use, by `gridsim.optimization.bounds`; the digest
        does not cover it.  If tasks move data over links, the bound is the largest of this one and those of
        `gridsim.optimization.data_bound`; if tasks need memory or disk, those of
        `gridsim.optimization.need_bound` are included.

        Parameters
        ----------
        kind
            ``"fluid"``: work can be divided arbitrarily; ``"preemptive"``: whole tasks may migrate, and if
            tasks of an application differ in size, only its largest task counts; ``"discrete"``: whole tasks
            do not migrate; ``"best"``: the kind that `kind_of_bound` returns.

        Raises
        ------
        ScenarioError
            If there is no such kind, or if it is ``"discrete"`` and the tasks of an application differ in
            size or may migrate.
        """
        kind, table = self.kind_of_bound(kind), self.applications
        differ = "largest_task" in table
        if kind == "discrete" and differ:
            raise ScenarioError('bound must not be "discrete" if tasks of an application differ in size')
        if kind == "discrete" and self.migrates:
            raise ScenarioError('bound must not be "discrete" if tasks may migrate')
        if kind not in self._bounds:
            release, size = self._completed_column("release"), self._completed_column("size")
            task_size, counts = self._completed_column("task_size"), table["tasks"][self._completed]
            if differ:
                task_size, counts = self._completed_column("largest_task"), np.ones_like(counts)

            def bound_of(rows: Any, speeds: Floats) -> Bound:
                if kind == "fluid":
                    return fluid_bound(release[rows], size[rows], math.fsum(speeds.tolist()))
                columns = release[rows], size[rows], task_size[rows], counts[rows], speeds
                return shared_discrete_bound(*columns, migration=kind == "preemptive")

            if "predecessors" in table:
                bounds = self._bounds_with_dependencies(bound_of, task_size, counts, size)
            else:
                bounds = [bound_of(slice(None), self.core_speeds), *self._need_bounds(bound_of)]
                bounds += self._data_bounds(kind, release, size, task_size, counts)
            self._bounds[kind] = max(bounds, key=lambda bound: bound.stretch)
        return self._bounds[kind]

    def _bounds_with_dependencies(
        self, bound_of: Callable[[Any, Floats], Bound], task_size: Floats, tasks: Any, size: Floats
    ) -> list[Bound]:
        """Return the bounds of the applications without predecessors, and of each other one alone.

        Only the former have releases that do not depend on the schedule.
        """
        speeds, is_free = self.core_speeds, self._completed_column("predecessors") == 0
        speed = math.fsum(speeds.tolist())
        ceiling = np.maximum(task_size * (tasks + len(speeds)) / size, 1.0) / speed * (1 + 1e-9)
        others = np.flatnonzero(~is_free)
        others = others[np.argsort(-ceiling[others], kind="stable")]
        bounds = list[Bound]()
        for rows in filter(len, (np.flatnonzero(is_free), *others[:, None])):
            if bounds and not is_free[rows[0]] and ceiling[rows[0]] <= max(b.stretch for b in bounds):
                break
            bound = bound_of(rows, speeds)
            applications = rows[bound.applications]
            bounds.append(replace(bound, first=int(rows[bound.first]), applications=applications))
        return bounds

    def _need_bounds(self, bound_of: Callable[[Any, Floats], Bound]) -> Sequence[Bound]:
        """Return the bounds for the machines that have the memory and disk that tasks of bags need."""
        resources = [name for name in ("memory", "disk") if name in self.applications]
        if self.rigid or not resources:
            return []
        from gridsim.optimization.need_bound import need_bounds

        needs, capacity = (
            np.stack([column(name) for name in resources], axis=1)
            for column in (self._completed_column, self.machines.__getitem__)
        )
        cores: dict[str, Any] = {"cores": self.machines["cores"]} if "cores" in self.machines else {}
        shared = resources.index("memory") if "memory" in resources else None
        return need_bounds(needs, capacity, self.machines["speed"], bound_of, shared=shared, **cores)

    def _data_bounds(
        self, kind: BoundKind, release: Floats, size: Floats, task_size: Floats, tasks: Any
    ) -> list[Bound]:
        """Return the bounds for the bandwidths of the machines' links; none if tasks move no data."""
        if "bandwidth" not in self.machines:
            return []
        from gridsim.optimization.data_bound import link_bound, whole_tasks_bound

        platform = self.machines["speed"], self.machines["bandwidth"]
        names = {"input": "input_bytes", "output": "output_bytes"}
        bytes_by_direction = {
            direction: self._completed_column(name) if name in self.applications else np.zeros(len(size))
            for direction, name in names.items()
        }
        bounds: list[Bound] = [
            link_bound(release, size, column / task_size, *platform, direction)
            for direction, column in bytes_by_direction.items()
            if column.any()
        ]
        if kind == "discrete":
            columns = (
                release,
                size,
                task_size,
                tasks,
                bytes_by_direction["input"],
                bytes_by_direction["output"],
            )
            bounds.append(whole_tasks_bound(*columns, *platform))
        return bounds

    def gap(self, kind: BoundKind = "best") -> float:
        """Return the largest stretch / the lower bound of this `kind`; 1 is optimal."""
        return self.max_stretch / self.bound(kind).stretch

    # -- of all results ---------------------------------------------------------------------------------

    @metric("Mflop/s", selectable=False)
    def aggregate_speed(self) -> float:
        """Total speed of all cores of the machines, Mflop/s."""
        return math.fsum(self.core_speeds.tolist())

    @property
    def core_speeds(self) -> Floats:
        """Speed of each core of the machines, Mflop/s: float64[cores]."""
        speeds: Floats = self.machines["speed"]
        return np.repeat(speeds, self.machines["cores"]) if "cores" in self.machines else speeds

    @metric("Mflop", selectable=False)
    def _work(self) -> float:
        """Total size of all applications, Mflop."""
        return formulas.total(self.applications["size"])

    @metric("1", "work / (aggregate speed * first to last release)", selectable=False)
    def _offered_load(self) -> float:
        """Total work / capacity of all machines from first to last release; infinite if these coincide."""
        table = self.applications
        return formulas.load_of(table["release"], table["size"], self.aggregate_speed)

    @metric("s/Mflop", of_bags=True)
    def max_stretch(self) -> float:
        """Largest weighted flow, (finish - release) / size, s/Mflop; NaN if no application was completed."""
        return _maximum(self._completed_column("stretch"))

    @metric("1", "max_stretch * aggregate_speed", of_bags=True)
    def max_stretch_agg(self) -> float:
        """Largest stretch of an application, response time over size / aggregate speed."""
        return _maximum(self._completed_column("stretch_agg"))

    @metric("s/Mflop", of_bags=True)
    def mean_stretch(self) -> float:
        """Mean weighted flow over applications, s/Mflop."""
        return formulas.mean(self._completed_column("stretch"))

    @metric("1", "mean_stretch * aggregate_speed", of_bags=True)
    def mean_stretch_agg(self) -> float:
        """Mean stretch over applications."""
        return self.mean_stretch * self.aggregate_speed

    @metric("s/Mflop", of_bags=True)
    def min_stretch(self) -> float:
        """Smallest weighted flow of an application, s/Mflop; NaN if none was completed."""
        return -_maximum(-self._completed_column("stretch"))

    @metric("s/Mflop", of_bags=True)
    def _lower_bound(self) -> float:
        """Lower bound of `max_stretch`, s/Mflop; summaries omit it for more than 5,000 applications."""
        return self.bound().stretch

    @metric("1", "max stretch / lower bound", of_bags=True)
    def _gap(self) -> float:
        """Largest stretch / lower bound; summaries omit it for more than 5,000 applications."""
        return self.gap()

    @metric("s")
    def makespan(self) -> float:
        """Time from the first release to the last finish, s."""
        return formulas.makespan(self.applications["release"], self.applications["finish"])

    @metric("1", "busy machine time / all machine time, first release to last finish")
    def utilization(self) -> float:
        """Busy time of all cores / (number of cores * makespan); a machine has one core by default."""
        if self.of_log:
            return float(self.facts["utilization"])
        utilization = self.machines["utilization"]
        if "cores" in self.machines:
            return formulas.weighted_mean(utilization, self.machines["cores"])
        return formulas.mean(utilization)

    @metric("kWh", requirement="machines.energy")
    def energy(self) -> float:
        """Energy of all machines from the first release to the end, kWh; NaN without ``platform.power``."""
        if self.of_log:
            return float(self.facts.get("energy", math.nan))
        return self._machine_total("energy") / JOULES_PER_KWH

    @metric("kg", requirement="machines.carbon")
    def carbon(self) -> float:
        """Carbon dioxide of that energy, kg; NaN without ``platform.power.carbon``."""
        if self.of_log:
            return float(self.facts.get("carbon", math.nan))
        return self._machine_total("carbon")

    @metric("tasks")
    def _resubmitted(self) -> float:
        """Number of times that tasks had to be placed again."""
        return int(self._counted_column("resubmitted").sum())

    @metric("s", "from release to finish, mean over applications")
    def mean_completion(self) -> float:
        """Mean time from release to finish of completed applications, s."""
        return formulas.mean(self._completed_column("finish") - self._completed_column("release"))

    # -- of rigid jobs ----------------------------------------------------------------------------------

    @metric("jobs", requirement="applications.failed")
    def failed(self) -> float:
        """Number of rejected rigid jobs."""
        cancelled = self._counted_column("cancelled").sum() if "cancelled" in self.applications else 0
        return int(np.isnan(self._counted_column("finish")).sum() - cancelled)

    _cancelled = _sum_metric("cancelled", "jobs", "Number of rigid jobs that their users cancelled.")

    @metric("jobs", "killed, for example at their requested time", requirement="applications.terminated")
    def terminated(self) -> float:
        """Number of rigid jobs that were killed before they had ended; NaN if jobs cannot be killed."""
        has_column = "terminated" in self.applications
        return int(self._counted_column("terminated").sum()) if has_column else math.nan

    @metric("jobs", "of which failures cut off a run", requirement="applications.failed")
    def interrupted(self) -> float:
        """Number of rigid jobs that lost a machine while they ran; NaN for bags and for a job log."""
        if not self.rigid or self.of_log:
            return math.nan
        return int((self._counted_column("resubmitted") > 0).sum())

    @metric("h", "cores * time of the runs that failures cut off", requirement="applications.failed")
    def lost_core_hours(self) -> float:
        """Core-hours of the runs that failures cut off; NaN for bags, a job log, and if users cancel jobs."""
        table = self.applications
        if not self.rigid or self.of_log or "cancelled" in table:  # users cut off runs as well
            return math.nan
        if not table["resubmitted"].any():
            return 0.0
        ran = ~np.isnan(table["finish"])
        completed = formulas.total((self.width * table["run_time"])[ran])
        return max(0.0, self._machine_total("busy") - completed) / 3600.0

    @metric(
        "1", "nodes * run time / all machine time, first to last release",
        requirement="applications.failed", selectable=False,
    )  # fmt: skip
    def _request_utilization(self) -> float:
        """Node time requested by rigid jobs / node time of all machines from first to last release."""
        table = self.applications
        return formulas.request_utilization(
            table["release"], self.width.astype(np.float64), table["run_time"], self.core_count
        )

    @metric("h", "cores * run time of all jobs; a machine has one core unless it states more",
            requirement="applications.failed", selectable=False)  # fmt: skip
    def core_hours(self) -> float:
        """Core-hours of all rigid jobs: cores times run time; a machine has one core by default."""
        return formulas.total(self.width * self.applications["run_time"]) / 3600.0

    @metric("s", requirement="applications.failed")
    def mean_waiting(self) -> float:
        """Mean waiting time of completed rigid jobs, s; NaN for bags."""
        return formulas.mean(self._rigid_column("waiting"))

    @metric("s", "each job counts by its cores", requirement="applications.failed")
    def mean_waiting_by_cores(self) -> float:
        """Mean waiting time of completed rigid jobs, weighted by number of cores, s; NaN for bags."""
        return formulas.weighted_mean(self._rigid_column("waiting"), self._rigid_width)

    @metric("s", requirement="applications.failed")
    def median_waiting(self) -> float:
        """Median waiting time of completed rigid jobs, s; NaN for bags."""
        waiting = self._rigid_column("waiting")
        return float(np.median(waiting)) if len(waiting) else math.nan

    @metric("s", "95th percentile", requirement="applications.failed")
    def p95_waiting(self) -> float:
        """Waiting time that 95 % of the completed rigid jobs do not exceed, s, interpolated; NaN for bags."""
        waiting = self._rigid_column("waiting")
        return float(np.quantile(waiting, 0.95)) if len(waiting) else math.nan

    @metric("1", "bounded", requirement="applications.failed")
    def mean_slowdown(self) -> float:
        """Mean bounded slowdown of completed rigid jobs (column `slowdown`); NaN for bags."""
        return formulas.mean(self._rigid_column("slowdown"))

    @metric("1", "bounded; each job counts by its cores", requirement="applications.failed")
    def mean_slowdown_by_cores(self) -> float:
        """Mean bounded slowdown of completed rigid jobs, weighted by number of cores; NaN for bags."""
        return formulas.weighted_mean(self._rigid_column("slowdown"), self._rigid_width)

    @metric("1", "of the machine time from first to last release", requirement="applications.failed")
    def offered_utilization(self) -> float:
        """Share of all machine time from first to last release that completed jobs use; NaN for bags.

        Time that runs cut off by failures used is not included.
        """
        if not self.rigid:
            return math.nan
        table, releases = self.applications, self._counted_column("release")
        earliest = table["release"]
        if "not_before" in table:
            earliest = np.maximum(earliest, table["not_before"])
        # jobs that do not count may still run in the period
        is_completed, start = ~np.isnan(table["finish"]), earliest + table["waiting"]
        return formulas.utilization_within(
            start[is_completed],
            table["finish"][is_completed],
            self.width[is_completed],
            (float(releases.min()), float(releases.max())),
            self.core_count,
        )

    # -- of jobs that may move --------------------------------------------------------------------------

    @metric("s", "from release until the result is back, mean over jobs", requirement="jobs")
    def mean_turnaround(self) -> float:
        """Mean time from the release of a job until its result is back, s; NaN without jobs that may move."""
        return formulas.mean(self._jobs_column("turnaround"))

    @metric("1", "jobs that moved / all jobs", requirement="jobs")
    def migrated(self) -> float:
        """Share of the jobs that left the machine of their submitter; NaN without jobs that may move."""
        if "jobs" not in self.tables:
            return math.nan
        home = self.applications["submitter"][self._jobs_column("application")]
        return float(np.mean(self._jobs_column("machine") != home))

    @metric(
        "1", "|predicted - actual wait| / actual, mean over jobs that moved and waited", requirement="jobs"
    )
    def prediction_error(self) -> float:
        """Mean of abs(predicted wait - wait) / wait over jobs that moved and waited; NaN if none did."""
        return formulas.mean(
            formulas.prediction_errors(self._jobs_column("predicted"), self._jobs_column("waited"))
        )

    @metric("jobs", "that moved and did not have to wait", requirement="jobs")
    def prediction_undefined(self) -> float:
        """Number of moved jobs that did not wait, which `prediction_error` omits; NaN if none may move."""
        if "jobs" not in self.tables:
            return math.nan
        return float((~np.isnan(self._jobs_column("predicted")) & (self._jobs_column("waited") == 0)).sum())

    @metric("1", "messages sent / jobs", requirement="jobs")
    def messages_per_job(self) -> float:
        """Messages sent / number of jobs; NaN without jobs that may move."""
        count = len(self.tables.get("jobs", ()))
        return int(self.messages["sent"].sum()) / count if count else math.nan

    # -- of work queues and wave schedulers -------------------------------------------------------------

    @metric("1", "redundant, lost and overhead cycles / these and the useful ones", requirement="cycles")
    def wasted(self) -> float:
        """Share of redundant, lost and overhead cycles; NaN without the table ``cycles``."""
        if (cycles := self.tables.get("cycles")) is None:
            return math.nan
        return formulas.wasted_share({name: self._cycles_column(name) for name in cycles})

    @metric("tasks", "completed that were never resubmitted", requirement="cycles")
    def undisturbed(self) -> float:
        """Number of completed tasks that were never resubmitted; NaN without the table ``cycles``."""
        has_column = "undisturbed" in self.applications
        return float(self._counted_column("undisturbed").sum()) if has_column else math.nan

    _useful = _cycles_metric("useful", "Sum of the column of ``cycles``.")
    _redundant = _cycles_metric("redundant", "Sum of the column of ``cycles``.")
    _lost = _cycles_metric("lost", "Sum of the column of ``cycles``.")
    _overhead = _cycles_metric("overhead", "Sum of the column of ``cycles``.")
    _slowed = _cycles_metric("slowed", "Sum of the column of ``cycles``.")
    _replicas = _sum_metric("replicas", "replicas", "Replicas begun while another of the same task ran.")

    _killed = _sum_metric(
        "killed", "replicas", "Replicas stopped because another of the same task was completed."
    )

    # -- of fair trees ----------------------------------------------------------------------------------

    @metric("1", "requests decided at the root / all requests", requirement="requests.level")
    def requests_at_root(self) -> float:
        """Share of the requests of a fair tree that its root decided; NaN for other schedulers."""
        return self._fact("requests_at_root")

    @metric("1", "applications decided at the root / all applications", requirement="requests.level")
    def applications_at_root(self) -> float:
        """Share of the applications whose first request the root of a fair tree decided; NaN for others."""
        return self._fact("applications_at_root")

    @metric("s", "from release to the first decision, mean over applications", requirement="requests.level")
    def decision_wait_mean_s(self) -> float:
        """Mean time that applications wait for the first decision of a fair tree, s; NaN for others."""
        return self._fact("decision_wait_mean_s")

    # -- of all results: messages -----------------------------------------------------------------------

    @metric("messages")
    def _messages(self) -> float:
        """Messages sent between different machines; NaN for a job log, which does not state them."""
        return self._messages_total("sent")

    @metric("messages", selectable=False)
    def _dropped(self) -> float:
        """Messages lost because a machine failed; NaN for a job log."""
        return self._messages_total("dropped")

    @metric("B")
    def _bytes(self) -> float:
        """Bytes of the messages sent; NaN for a job log."""
        return self._messages_total("bytes")

    @metric("B", "task data", requirement="machines.data_in", selectable=False)
    def _data_bytes(self) -> float:
        """Task data fetched, bytes; only with ``network.task_data``."""
        return float(self.machines["data_in"].sum())

    @metric("1", "task data / bytes of messages", requirement="machines.data_in", selectable=False)
    def _data_ratio(self) -> float:
        """Task data / bytes of messages; NaN without messages; only with ``network.task_data``."""
        sent = int(self.messages["bytes"].sum())
        return float(self.machines["data_in"].sum()) / sent if sent else math.nan


#: All metrics by name, in the order of a summary.
SUMMARY: dict[str, Metric] = {
    metric.name: metric for metric in vars(Metrics).values() if isinstance(metric, Metric)
}  # fmt: skip
#: The metrics that studies can select by name.
METRICS: dict[str, Metric] = {name: metric for name, metric in SUMMARY.items() if metric.selectable}
#: Name of an entry of a summary -> its unit, followed by its explanation, if any, in brackets.
UNITS = {
    **{
        name: f"{metric.unit} ({metric.note})" if metric.note else metric.unit
        for name, metric in SUMMARY.items()
        if metric.unit != name
    },
    "wall_seconds": "s",
    "peak_memory": "B",
}
#: Metric by which schedulers are compared -> the metrics shown by default, except those that runs do not
#: have.
DEFAULT_METRICS: dict[str, tuple[str, ...]] = {
    "mean_waiting": (
        "mean_waiting", "mean_waiting_by_cores", "median_waiting", "p95_waiting", "mean_slowdown",
        "mean_slowdown_by_cores", "offered_utilization", "failed",
    ),
    "mean_turnaround": ("mean_turnaround", "migrated", "messages_per_job"),
    "mean_completion": ("mean_completion", "wasted", "max_stretch_agg"),
    "max_stretch": ("max_stretch_agg", "mean_stretch_agg", "gap"),
}  # fmt: skip
#: Alias of a metric, as shown in tables -> its name.
ALIASES = {
    "stretch": "max_stretch_agg",
    "wait": "mean_waiting",
    "waiting": "mean_waiting",
    "response": "mean_completion",
    "mean_response": "mean_completion",
}
#: Metrics of messages, which schedulers that see the whole grid do not have: they are not charged for any.
MESSAGE_METRICS = ("messages", "bytes", "messages_per_job")
_COMMON_METRICS = ("makespan", "utilization", "messages", "bytes")
#: Metrics shown by default if at least one run has them.
_OCCASIONAL_METRICS = ("requests_at_root", "decision_wait_mean_s", "terminated", "energy", "carbon")
#: Metrics whose computation takes time quadratic in the number of applications.
_QUADRATIC_METRICS = ("gap", "lower_bound")


def check_bound(kind: BoundKind) -> BoundKind:
    """Return `kind` if it is a kind of bound, else raise ScenarioError."""
    if kind not in (known := get_args(BoundKind)):
        raise ScenarioError(f"bound must be one of {', '.join(known)}, got {kind!r}")
    return kind


def metric_values(
    result: Metrics,
    functions: Mapping[str, MetricFunction | None],
    errors: dict[str, BaseException] | None = None,
) -> dict[str, float]:
    """Return the values of all `METRICS` and of the functions in `functions`.

    The lower bound and the optimality gap, which take long to compute, are included if one of them is among
    `functions`, and, without functions, for bags of at most `BOUND_LIMIT` applications.

    Parameters
    ----------
    errors
        Collects the errors of functions, whose values then are NaN; None to raise them.
    """
    is_default = not functions and not result.rigid and len(result.applications) <= BOUND_LIMIT
    with_bounds = is_default or any(name in functions for name in _QUADRATIC_METRICS)
    values = {
        name: float(metric(result))
        for name, metric in METRICS.items()
        if with_bounds or name not in _QUADRATIC_METRICS
    }
    for name, metric in functions.items():
        if metric is not None:
            try:
                values[name] = _number(name, metric, metric(result))
            except MemoryError:  # with more memory there might be a value
                raise
            except (Exception, SystemExit) as error:  # a function of the user may raise anything
                if errors is None:
                    raise
                errors[name], values[name] = error, math.nan
    return values


def _number(name: str, metric: MetricFunction, value: Any) -> float:
    """Return the value of a function of the user as a number."""
    try:
        if not isinstance(value, (str, bytes)):  # float() accepts some of them
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    code = getattr(metric, "__code__", None)
    place = "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"
    raise ScenarioError(f"metrics[{name!r}] must return a number, got {short_repr(value)}{place}")


def with_common_bound(values: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the values of runs of the same bags, with a common lower bound and the gaps to it.

    The common bound is the smallest: a bound for schedulers with migration also holds for the others.
    """
    bounds = [
        run_values["lower_bound"]
        for run_values in values
        if math.isfinite(run_values.get("lower_bound", math.nan))
    ]
    if not bounds:
        return [dict(run_values) for run_values in values]
    bound = min(bounds)
    return [
        {
            **run_values,
            **(
                {"lower_bound": bound, "gap": run_values.get("max_stretch", math.nan) / bound}
                if "lower_bound" in run_values
                else {}
            ),
        }
        for run_values in values
    ]


def summary_values(result: Metrics, bound: BoundKind) -> dict[str, float | None]:
    """Return all metrics of a result, with the lower bound and optimality gap for this kind of bound.

    Both are None for more than `BOUND_LIMIT` applications, since they take long to compute, and if no
    application was completed.  Rigid jobs have neither, nor stretches.
    """
    values = dict(result._linear_metrics)
    if result.rigid:
        check_bound(bound)
        return {name: values[name] for name in SUMMARY if name in values}
    has_bound = len(result.applications) <= BOUND_LIMIT and bool(result._completed.any())
    values["lower_bound"] = result.bound(bound).stretch if has_bound else None
    values["gap"] = result.gap(bound) if has_bound else None
    return {name: values[name] for name in SUMMARY if name in values}


def default_metrics(values: Sequence[Mapping[str, float]], rigid: bool) -> list[str]:
    """Return the metrics to show for runs; the first is the one by which they are compared.

    Those of messages are left out if no run sends any.

    Parameters
    ----------
    values
        The values of `METRICS` for each run.
    rigid
        Whether the runs are of rigid jobs.
    """
    measure = "mean_waiting" if rigid else "max_stretch"
    for indicator, candidate in (("migrated", "mean_turnaround"), ("wasted", "mean_completion")):
        if (
            not rigid
            and values
            and all(math.isfinite(run_values.get(indicator, math.nan)) for run_values in values)
        ):
            measure = candidate
            break
    first, *others = DEFAULT_METRICS[measure]
    others += _COMMON_METRICS
    if not any(run_values.get("messages", 0.0) > 0.0 for run_values in values):
        others = [name for name in others if name not in MESSAGE_METRICS]
    names = [name for name in others if all(name in run_values for run_values in values)]
    names += [
        name
        for name in _OCCASIONAL_METRICS
        if any(math.isfinite(run_values.get(name, math.nan)) for run_values in values)
    ]
    return [first, *names]


def known_name(metric: str, names: Container[str]) -> str:
    """Return the name of a metric that may be given by an alias; a metric among `names` keeps its name."""
    return metric if metric in names else ALIASES.get(metric, metric)


def display_name(name: str) -> str:
    """Return the name of a metric as text, such as "max stretch" for ``max_stretch_agg``."""
    if name == "mean_completion":
        return "mean response time"
    return name.removesuffix("_agg").replace("_", " ")


def heading(name: str, unit: str, noun: str = "core") -> str:
    """Return the table heading of a metric: its name, and its unit if it has one.

    Parameters
    ----------
    noun
        What the machines are called, "core" or "node".
    """
    if name.endswith("_agg"):
        return f"{display_name(name)} ({name})"
    unit = unit.removeprefix("1").strip()
    if name == "mean_completion":
        return f"{display_name(name)} ({name}), {unit}"
    if name.endswith("_by_cores") and noun != "core":
        unit = unit.replace("by its cores", f"by its {noun}s")
        name = f"{display_name(name.removesuffix('_cores'))} {noun}s ({name})"
    if " (" in unit:  # the unit contains an explanation
        return f"{name}, {unit}"
    return f"{name} {unit if unit.startswith('(') else f'({unit})'}" if unit else name


def _maximum(values: Floats) -> float:
    return float(values.max()) if len(values) else math.nan
