"""The metrics of a result: each is declared once, here, with its unit.

To add a metric, write a method of `Metrics` with the decorator `metric`.  Results, summaries, comparisons,
replications, sweeps, stores, ladders and the reference page of outputs then include it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from gridsim.errors import ScenarioError
from gridsim.results.metrics import formulas
from gridsim.results.metrics.bounds import (
    BOUND_LIMIT,
    DISCRETE_LIMIT,
    Bound,
    discrete_bound,
    fluid_bound,
)
from gridsim.results.table import Table
from gridsim.support.arguments import listed, short_repr
from gridsim.support.arrays import Floats

#: A metric defined by the user: a function of a `Result`.
MetricFunction = Callable[[Any], float]
BoundKind = Literal["best", "fluid", "preemptive", "discrete"]


class Metric(property):
    """A property that is a metric; the decorator `metric` makes it.

    Parameters
    ----------
    unit, note
        Such as "1" and "max stretch / lower bound".
    when
        The table, or table.column, that a result must have to have the metric; "" if all results have it.
    named
        Whether `METRICS` contains it, so that studies can ask for it.  Summaries contain all metrics.

    Attributes
    ----------
    name
        Name of the metric.  It lacks the leading underscore of the property; a property has one if a table or
        method of a result has the plain name.
    """

    def __init__(
        self, function: Callable[[Any], float], unit: str, note: str, when: str, named: bool
    ) -> None:
        super().__init__(function)
        self.function = function
        self.name = function.__name__.lstrip("_")
        self.unit, self.note, self.when, self.named = unit, note, when, named

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
        """What the metric is, in one line: the first paragraph of its docstring."""
        return (self.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()

    def has(self, tables: Mapping[str, Table]) -> bool:
        """Whether a result with these tables has the metric."""
        table, _, column = self.when.partition(".")
        return not table or (table in tables and (not column or column in tables[table]))


def metric(
    unit: str, note: str = "", *, when: str = "", named: bool = True
) -> Callable[[Callable[[Any], float]], Metric]:
    """Return a decorator that turns a method into a `Metric`; the method's docstring explains the metric."""
    return lambda function: Metric(function, unit, note, when, named)


def _cycles(name: str, text: str) -> Metric:
    def total(self: Metrics) -> float:
        return formulas.total(self.tables["cycles"][name])

    total.__name__, total.__doc__ = name, text
    return Metric(total, "Mflop", "", "cycles", False)


def _count(name: str, unit: str, text: str) -> Metric:
    def total(self: Metrics) -> float:
        return int(self.applications[name].sum())

    total.__name__, total.__doc__ = name, text
    return Metric(total, unit, "", f"applications.{name}", False)


class Metrics:
    """The metrics of a result, in the order in which a summary has them.

    A metric is NaN if the result has nothing that it could measure, such as the waiting time of bags.
    """

    tables: Mapping[str, Table]
    facts: Mapping[str, Any]

    @property
    def of_log(self) -> bool:
        """Whether this is the schedule of a job log, which states no messages and no single machines."""
        return False

    def _messages_total(self, column: str) -> float:
        """Return the sum of a column of the table ``messages``; NaN for a job log."""
        return math.nan if self.of_log else int(self.messages[column].sum())

    @cached_property
    def _bounds(self) -> dict[BoundKind, Bound]:
        return {}

    @cached_property
    def _linear_metrics(self) -> dict[str, float | None]:
        """The metrics in a summary that take time linear in the number of applications."""
        return {
            name: metric(self)
            for name, metric in SUMMARY.items()
            if name not in _COSTLY and metric.has(self.tables)
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
    def _completed(self) -> NDArray[np.bool_]:
        """bool[applications]: True except for rejected and cancelled rigid jobs."""
        finish: Floats = self.applications["finish"]
        return ~np.isnan(finish)

    @cached_property
    def _all_completed(self) -> bool:
        return bool(self._completed.all())

    def _of_completed(self, name: str) -> Floats:
        column: Floats = self.applications[name]
        return column if self._all_completed else column[self._completed]

    def _of_rigid(self, name: str) -> Floats:
        return self._of_completed(name) if self.rigid else np.zeros(0)

    def _of_jobs(self, name: str) -> Floats:
        """The column `name` of the table ``jobs``; empty if the result has no such table."""
        return self.tables["jobs"][name] if "jobs" in self.tables else np.zeros(0)

    @property
    def migrates(self) -> bool | None:
        """Whether tasks that have begun may go on on other machines; None where that is not known."""
        return None

    def kind_of_bound(self, kind: BoundKind = "best") -> BoundKind:
        """Return the kind of bound that `bound` computes for `kind`.

        The best one is ``"discrete"``, or ``"preemptive"`` where tasks may migrate, where tasks of an
        application differ in size, or where applications times machines exceed `DISCRETE_LIMIT`.

        Raises ScenarioError for another kind.
        """
        if check_bound(kind) != "best":
            return kind
        pairs = len(self.applications) * len(self.machines)
        if "largest_task" in self.applications or pairs > DISCRETE_LIMIT:
            return "preemptive"
        return "discrete" if self.migrates is False else "preemptive"

    def bound(self, kind: BoundKind = "best") -> Bound:
        """Return a lower bound that no schedule of these applications on these machines can beat.

        It is computed from the tables when it is first asked for; the digest does not cover it.  See
        `gridsim.results.metrics.bounds`.  Raises ScenarioError for another kind, and for "discrete" if the
        tasks of an application differ in size or may migrate.

        Parameters
        ----------
        kind
            ``"fluid"``: work can be cut at will; ``"preemptive"``: whole tasks that may migrate, of which an
            application counts only the largest where they differ in size; ``"discrete"``: whole tasks that do
            not migrate; ``"best"``: see `kind_of_bound`.  Where tasks move data over links, also by what the
            links carry (`gridsim.results.metrics.data_bound`); where tasks need memory or disk, also by what
            the machines do that have as much (`gridsim.results.metrics.need_bound`).
        """
        kind, table = self.kind_of_bound(kind), self.applications
        unequal = "largest_task" in table
        if kind == "discrete" and unequal:
            raise ScenarioError('bound must be "preemptive" where tasks of an application differ in size')
        if kind == "discrete" and self.migrates:
            raise ScenarioError('bound must be "preemptive" where tasks may migrate, got "discrete"')
        if kind not in self._bounds:
            release, size = self._of_completed("release"), self._of_completed("size")
            task_size, counts = self._of_completed("task_size"), table["tasks"][self._completed]
            if unequal:
                task_size, counts = self._of_completed("largest_task"), np.ones_like(counts)

            def of(those: Any, speeds: Floats) -> Bound:
                if kind == "fluid":
                    return fluid_bound(release[those], size[those], math.fsum(speeds.tolist()))
                columns = release[those], size[those], task_size[those], counts[those]
                return discrete_bound(*columns, speeds, migration=kind == "preemptive")

            bounds = [of(slice(None), self.machines["speed"]), *self._need_bounds(of)]
            bounds += self._data_bounds(kind, release, size, task_size, counts)
            self._bounds[kind] = max(bounds, key=lambda bound: bound.stretch)
        return self._bounds[kind]

    def _need_bounds(self, of: Callable[[Any, Floats], Bound]) -> Sequence[Bound]:
        """Return the bounds by the machines that have the memory and disk that tasks of bags need."""
        wanted = [name for name in ("memory", "disk") if name in self.applications]
        if self.rigid or not wanted:
            return []
        from gridsim.results.metrics.need_bound import need_bounds

        needs, there = (
            np.stack([table[name] for name in wanted], axis=1) for table in (self.applications, self.machines)
        )
        return need_bounds(needs, there, self.machines["speed"], of)

    def _data_bounds(
        self, kind: BoundKind, release: Floats, size: Floats, task_size: Floats, tasks: Any
    ) -> list[Bound]:
        """Return the bounds by what the links of machines carry, if tasks move data over them."""
        if "bandwidth" not in self.machines:
            return []
        from gridsim.results.metrics.data_bound import link_bound, whole_tasks_bound

        platform = self.machines["speed"], self.machines["bandwidth"]
        names = {"input": "input_bytes", "output": "output_bytes"}
        moved = {
            way: self._of_completed(name) if name in self.applications else np.zeros(len(size))
            for way, name in names.items()
        }
        found: list[Bound] = [
            link_bound(release, size, column / task_size, *platform, way)
            for way, column in moved.items()
            if column.any()
        ]
        if kind == "discrete":
            columns = release, size, task_size, tasks, moved["input"], moved["output"]
            found.append(whole_tasks_bound(*columns, *platform))
        return found

    def gap(self, kind: BoundKind = "best") -> float:
        """Largest stretch over the lower bound of this `kind`; 1 is optimal, and may be out of reach."""
        return self.max_stretch / self.bound(kind).stretch

    # -- of all results ---------------------------------------------------------------------------------

    @metric("Mflop/s", named=False)
    def aggregate_speed(self) -> float:
        """Mflop/s of all machines."""
        return math.fsum(self.machines["speed"].tolist())

    @metric("Mflop", named=False)
    def _work(self) -> float:
        """Mflop of all applications."""
        return formulas.total(self.applications["size"])

    @metric("1", "work / (aggregate speed * first to last release)", named=False)
    def _offered_load(self) -> float:
        """Work over what the machines can do from the first to the last release; infinite if all are one."""
        table = self.applications
        return formulas.load_of(table["release"], table["size"], self.aggregate_speed)

    @metric("s/Mflop")
    def max_stretch(self) -> float:
        """Largest stretch of an application, s/Mflop; NaN if none was completed."""
        return _most(self._of_completed("stretch"))

    @metric("1", "max_stretch * aggregate_speed")
    def max_stretch_agg(self) -> float:
        """Largest stretch of an application, as tables show it: `max_stretch` times the aggregate speed."""
        return _most(self._of_completed("stretch_agg"))

    @metric("s/Mflop")
    def mean_stretch(self) -> float:
        """Mean stretch over applications, s/Mflop."""
        return formulas.mean(self._of_completed("stretch"))

    @metric("1", "mean_stretch * aggregate_speed")
    def mean_stretch_agg(self) -> float:
        """Mean stretch over applications, as tables show it: `mean_stretch` times the aggregate speed."""
        return self.mean_stretch * self.aggregate_speed

    @metric("s/Mflop")
    def min_stretch(self) -> float:
        """Smallest stretch of an application, s/Mflop; NaN if none was completed."""
        return -_most(-self._of_completed("stretch"))

    @metric("s/Mflop")
    def _lower_bound(self) -> float:
        """No schedule has a smaller largest stretch; none in a summary of more than 5,000 applications."""
        return self.bound().stretch

    @metric("1", "max stretch / lower bound")
    def _gap(self) -> float:
        """Largest stretch over the lower bound; none in a summary of more than 5,000 applications."""
        return self.gap()

    @metric("s")
    def makespan(self) -> float:
        """From the first release to the last finish, s."""
        return formulas.makespan(self.applications["release"], self.applications["finish"])

    @metric("1", "busy machine time / all machine time, first release to last finish")
    def utilization(self) -> float:
        """Mean share of the makespan in which a machine was busy; of a job log that of all together."""
        if self.of_log:
            return float(self.facts["utilization"])
        return formulas.mean(self.machines["utilization"])

    @metric("tasks")
    def _resubmitted(self) -> float:
        """Tasks that had to be placed again, as often as they had to."""
        return int(self.applications["resubmitted"].sum())

    @metric("s", "from release to finish, mean over applications")
    def mean_completion(self) -> float:
        """Mean over the applications that were completed of the time from release to finish, s."""
        return formulas.mean(self._of_completed("finish") - self._of_completed("release"))

    # -- of rigid jobs ----------------------------------------------------------------------------------

    @metric("jobs", when="applications.failed")
    def failed(self) -> float:
        """Rigid jobs that were rejected."""
        cancelled = self.applications["cancelled"].sum() if "cancelled" in self.applications else 0
        return int((~self._completed).sum() - cancelled)

    _cancelled = _count("cancelled", "jobs", "Rigid jobs that their users cancelled before they had ended.")

    @metric(
        "1", "nodes * run time / all machine time, first to last release",
        when="applications.failed", named=False,
    )  # fmt: skip
    def _request_utilization(self) -> float:
        """Node time that rigid jobs ask for, over what the machines have from first to last release."""
        table = self.applications
        return formulas.request_utilization(
            table["release"], table["tasks"], table["run_time"], len(self.machines)
        )

    @metric("s", when="applications.failed")
    def mean_waiting(self) -> float:
        """Mean waiting time of the rigid jobs that were completed, s; NaN for bags."""
        return formulas.mean(self._of_rigid("waiting"))

    @metric("s", "each job counts by its machines", when="applications.failed")
    def mean_waiting_by_cores(self) -> float:
        """Mean waiting time of completed rigid jobs, weighted by their machines, s; NaN for bags."""
        return formulas.weighted_mean(self._of_rigid("waiting"), self._of_rigid("tasks"))

    @metric("s", when="applications.failed")
    def median_waiting(self) -> float:
        """Median waiting time of the rigid jobs that were completed, s; NaN for bags."""
        waiting = self._of_rigid("waiting")
        return float(np.median(waiting)) if len(waiting) else math.nan

    @metric("1", "bounded: run times count as at least 10 s", when="applications.failed")
    def mean_slowdown(self) -> float:
        """Mean bounded slowdown of the rigid jobs that were completed; NaN for bags."""
        return formulas.mean(self._of_rigid("slowdown"))

    # -- of jobs that may move --------------------------------------------------------------------------

    @metric("s", "from release until the result is back, mean over jobs", when="jobs")
    def mean_turnaround(self) -> float:
        """Mean over jobs of the time from release until the result is back, s; NaN without such jobs."""
        return formulas.mean(self._of_jobs("turnaround"))

    @metric("1", "jobs that moved / all jobs", when="jobs")
    def migrated(self) -> float:
        """Share of the jobs that moved to another machine than their submitter's; NaN without such jobs."""
        if "jobs" not in self.tables:
            return math.nan
        home = self.applications["submitter"][self.tables["jobs"]["application"]]
        return float(np.mean(self.tables["jobs"]["machine"] != home))

    @metric("1", "|predicted - actual wait| / actual, mean over jobs that moved and waited", when="jobs")
    def prediction_error(self) -> float:
        """Mean of abs(predicted - actual wait) / actual over jobs that moved and waited; NaN if none did."""
        return formulas.mean(formulas.prediction_errors(self._of_jobs("predicted"), self._of_jobs("waited")))

    @metric("jobs", "that moved and did not have to wait", when="jobs")
    def prediction_undefined(self) -> float:
        """Jobs that moved and found no queue, for which `prediction_error` is undefined; NaN without jobs."""
        if "jobs" not in self.tables:
            return math.nan
        return float((~np.isnan(self._of_jobs("predicted")) & (self._of_jobs("waited") == 0)).sum())

    @metric("1", "messages sent / jobs", when="jobs")
    def messages_per_job(self) -> float:
        """Messages sent over the number of jobs; NaN without jobs that may move."""
        count = len(self._of_jobs("turnaround"))
        return int(self.messages["sent"].sum()) / count if count else math.nan

    # -- of work queues and wave schedulers -------------------------------------------------------------

    @metric("1", "redundant, lost and overhead cycles / these and the useful ones", when="cycles")
    def wasted(self) -> float:
        """Share of the cycles that did not go into the size of a task; NaN without the table ``cycles``."""
        known = self.tables.get("cycles")
        return math.nan if known is None else formulas.wasted_share(dict(known.items()))

    @metric("tasks", "completed that were never resubmitted", when="cycles")
    def undisturbed(self) -> float:
        """Tasks completed that were never resubmitted; NaN without the table ``cycles``."""
        table = self.applications
        return float(table["undisturbed"].sum()) if "undisturbed" in table else math.nan

    _useful = _cycles("useful", "Sum of the column of ``cycles``.")
    _redundant = _cycles("redundant", "Sum of the column of ``cycles``.")
    _lost = _cycles("lost", "Sum of the column of ``cycles``.")
    _overhead = _cycles("overhead", "Sum of the column of ``cycles``.")
    _slowed = _cycles("slowed", "Sum of the column of ``cycles``.")
    _replicas = _count("replicas", "replicas", "Replicas begun while another of the same task ran.")
    _killed = _count("killed", "replicas", "Replicas stopped since another of the same task was completed.")

    # -- of all results: messages -----------------------------------------------------------------------

    @metric("messages")
    def _messages(self) -> float:
        """Messages sent between different machines; NaN for a job log, which does not state them."""
        return self._messages_total("sent")

    @metric("messages", named=False)
    def _dropped(self) -> float:
        """Messages lost because a machine failed; NaN for a job log."""
        return self._messages_total("dropped")

    @metric("B")
    def _bytes(self) -> float:
        """Bytes of the messages sent; NaN for a job log."""
        return self._messages_total("bytes")

    @metric("B", "task data", when="machines.data_in", named=False)
    def _data_bytes(self) -> float:
        """Task data fetched; only with ``network.task_data``."""
        return float(self.machines["data_in"].sum())

    @metric("1", "task data / bytes of messages", when="machines.data_in", named=False)
    def _data_ratio(self) -> float:
        """Task data over bytes of messages; NaN without messages, and only with ``network.task_data``."""
        sent = int(self.messages["bytes"].sum())
        return float(self.machines["data_in"].sum()) / sent if sent else math.nan


#: All metrics by name, in the order of a summary.
SUMMARY: dict[str, Metric] = {
    each.name: each for each in vars(Metrics).values() if isinstance(each, Metric)
}  # fmt: skip
#: The metrics that studies can ask for by name.
METRICS: dict[str, Metric] = {name: each for name, each in SUMMARY.items() if each.named}
#: Name of an entry of a summary -> its unit, followed by a note in brackets if it needs explaining.
UNITS = {
    **{
        name: f"{each.unit} ({each.note})" if each.note else each.unit
        for name, each in SUMMARY.items()
        if each.unit != name
    },
    "wall_seconds": "s",
    "peak_memory": "B",
}
#: Metric by which schedulers are compared -> the metrics shown in that case; those that a run does not have
#: are left out.  See `gridsim.studies.compare.Comparison.measure`.
DEFAULT_METRICS: dict[str, tuple[str, ...]] = {
    "mean_waiting": ("mean_waiting", "mean_waiting_by_cores", "median_waiting", "mean_slowdown", "failed"),
    "mean_turnaround": ("mean_turnaround", "migrated", "messages_per_job"),
    "mean_completion": ("mean_completion", "wasted", "max_stretch_agg"),
    "max_stretch": ("max_stretch_agg", "mean_stretch_agg", "gap"),
}
#: Other names by which studies can ask for a metric, as tables show it.
ALIASES = {"stretch": "max_stretch_agg", "wait": "mean_waiting", "waiting": "mean_waiting"}
_ALWAYS = ("makespan", "utilization", "messages", "bytes")
#: Metrics that take time quadratic in the number of applications.
_COSTLY = ("gap", "lower_bound")


def check_bound(kind: BoundKind) -> BoundKind:
    """Return `kind` if it is a kind of bound, else raise ScenarioError."""
    if kind not in (known := get_args(BoundKind)):
        raise ScenarioError(f"bound must be one of {', '.join(known)}, got {kind!r}")
    return kind


def requested_metrics(
    metrics: Sequence[str] | Mapping[str, MetricFunction],
) -> dict[str, MetricFunction | None]:
    """Return the wanted metrics: name -> function, or None for a metric of `METRICS`.

    Raises ScenarioError if a name is unknown, or `metrics` are neither names nor map names to functions.
    """
    wanted: dict[str, MetricFunction | None] = {}
    if isinstance(metrics, str):
        raise ScenarioError(f"metrics must be a list of names, or map names to functions, got {metrics!r}")
    for name in metrics:
        if not isinstance(name, str):
            raise ScenarioError(f"metrics must be names, got {short_repr(name)}")
        if name in ALIASES and not isinstance(metrics, Mapping):
            name = ALIASES[name]
        wanted[name] = metrics[name] if isinstance(metrics, Mapping) else None
        if not (wanted[name] is None or callable(wanted[name])):
            raise ScenarioError(f"metrics[{name!r}] must be a function of a result, got {wanted[name]!r}")
        if wanted[name] is None and name not in METRICS:
            raise ScenarioError(f"metrics: unknown {name!r}; {listed((*METRICS, *ALIASES), name)}")
    if not wanted:
        raise ScenarioError("metrics must name at least one, got none")
    return wanted


def metric_values(result: Metrics, wanted: Mapping[str, MetricFunction | None]) -> dict[str, float]:
    """Return the values of all `METRICS`, and of the functions in `wanted`.

    The lower bound and the optimality gap of more than `BOUND_LIMIT` applications take long to compute; they
    are included only if they are wanted.
    """
    costly = len(result.applications) > BOUND_LIMIT
    values = {
        name: float(each(result))
        for name, each in METRICS.items()
        if not (costly and name in _COSTLY and name not in wanted)
    }
    return values | {name: float(each(result)) for name, each in wanted.items() if each is not None}


def with_one_bound(values: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the values of runs of one workload of bags with the same lower bound, and gaps over it.

    It is the smallest of theirs: that of schedulers whose tasks migrate holds for the others, too.
    """
    bounds = [each["lower_bound"] for each in values if math.isfinite(each.get("lower_bound", math.nan))]
    if not bounds:
        return [dict(each) for each in values]
    bound = min(bounds)
    return [
        {
            **each,
            **({"lower_bound": bound, "gap": each["max_stretch"] / bound} if "lower_bound" in each else {}),
        }
        for each in values
    ]


def summary_values(result: Metrics, bound: BoundKind) -> dict[str, float | None]:
    """Return all metrics that a result has, with the lower bound and optimality gap of this kind of bound.

    Both are None for more than `BOUND_LIMIT` applications, which take long, and if none was completed.
    """
    values = dict(result._linear_metrics)
    bounded = len(result.applications) <= BOUND_LIMIT and bool(result._completed.any())
    values["lower_bound"] = result.bound(bound).stretch if bounded else None
    values["gap"] = result.gap(bound) if bounded else None
    return {name: values[name] for name in SUMMARY if name in values}


def default_metrics(values: Sequence[Mapping[str, float]], rigid: bool) -> list[str]:
    """Return the metrics to show of runs; the first is the one by which the runs are compared.

    Parameters
    ----------
    values
        The values of `METRICS` for each run.
    rigid
        Whether the runs are of rigid jobs.
    """
    measure = "mean_waiting" if rigid else "max_stretch"
    for sign, said in (("migrated", "mean_turnaround"), ("wasted", "mean_completion")):
        if not rigid and values and all(math.isfinite(each.get(sign, math.nan)) for each in values):
            measure = said
            break
    first, *others = DEFAULT_METRICS[measure]
    others += _ALWAYS
    return [first, *(name for name in others if all(name in each for each in values))]


def words(name: str) -> str:
    """Return a metric in words: "max stretch" for ``max_stretch_agg``, which is what tables call stretch."""
    return name.removesuffix("_agg").replace("_", " ")


def heading(name: str, unit: str) -> str:
    """Return the title of a table of a metric: its name, and its unit if it has one."""
    if name.endswith("_agg"):
        return f"{words(name)} ({name})"
    unit = unit.removeprefix("1").strip()
    if " (" in unit:  # which says what is measured
        return f"{name}, {unit}"
    return f"{name} {unit if unit.startswith('(') else f'({unit})'}" if unit else name


def _most(values: Floats) -> float:
    return float(values.max()) if len(values) else math.nan
