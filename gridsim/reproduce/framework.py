"""Experiments as data: cases, schedulers, claims with their rows, tables and a figure.

A `Reproduction` describes an experiment, and `Reproduction.run` runs it.  Parts that plain values cannot
describe are functions in its fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from gridsim.model.faults import Faults
from gridsim.model.network import Network
from gridsim.model.platform import Platform
from gridsim.model.scenario import Scenario
from gridsim.model.workload import Workload
from gridsim.reproduce.verdicts import ClaimedRange, Row, judge
from gridsim.results.metrics.estimates import Estimate
from gridsim.results.metrics.registry import MetricFunction
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.simulation.simulate import Progress
from gridsim.studies.replicate import replicate
from gridsim.studies.replicate_result import Replicates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
#: Files that replace drawn values: a log of rigid jobs, or of bags; hosts and bags; hosts; logs of tasks.
Files = Literal["job log", "bag log", "desktops", "availability", "task logs"]
Metrics = Sequence[str] | Mapping[str, MetricFunction]

# -- scenarios ------------------------------------------------------------------------------------------

#: The calibrations; the papers state neither the distribution of speeds nor the task size.
CALIBRATIONS = {
    "K1": "speeds 1000..2800 Mflop/s, most of them slow (Pareto), tasks of 65536 Mflop",
    "K2": "speeds 1000..3000 Mflop/s, uniform in steps of 200; task size of each application uniform in "
    "65536..131072 Mflop",
    "U": "speeds 1000..3000 Mflop/s, uniform in steps of 200, tasks of 65536 Mflop",
    "V": "as U, tasks of 16384 Mflop",
}
_TASK_SIZE: dict[str, Any] = {"K2": (65536.0, 131072.0), "V": 16384.0}
#: Mean time between failures of a machine in the paper, s: a Poisson process, once in four hours.
FAILURES = 14_400.0


class ScenarioFactory(Protocol):
    """Picklable factory: returns the scenario of a seed.

    Attributes
    ----------
    name
        File name of the scenario without its extension.
    """

    @property
    def name(self) -> str: ...

    def __call__(self, seed: int) -> Scenario: ...


@dataclass(frozen=True)
class CalibratedScenario:
    """Factory of the papers' scenarios with the platform and task size of a calibration.

    There are 100 applications, released 10 s apart on average, of 10 tasks per machine +- 20 %.

    Parameters
    ----------
    changes
        Returns further arguments of `Scenario` for a seed.
    """

    calibration: str
    nodes: int
    changes: Callable[[int], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """File name of the scenario without its extension, such as ``k1-1000-failing``."""
        name = f"{self.calibration.lower()}-{self.nodes}"
        return name if self.changes is None else f"{name}-{self.changes.__name__}"

    def __call__(self, seed: int) -> Scenario:
        desktops = Platform.pareto if self.calibration == "K1" else Platform.desktop_grid
        task_size = _TASK_SIZE.get(self.calibration, 65536.0)
        workload = Workload.bags(100, 10.0, 10.0, 0.2, task_size, seed=seed)
        changes = {"network": Network(), **({} if self.changes is None else self.changes(seed))}
        return Scenario(desktops(self.nodes, seed), workload, seed=seed, **changes)


def failing(seed: int) -> dict[str, Any]:
    """Return the `faults` argument of a `CalibratedScenario` with the paper's failures."""
    return {"faults": Faults.poisson(FAILURES, seed)}


# -- runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Scenarios of a factory, and the schedulers that run them (None: the schedulers of the experiment)."""

    scenario: ScenarioFactory
    schedulers: Mapping[str, Scheduler] | None = None
    metrics: Metrics | None = None


#: A case, or a sequence of parts in which different schedulers run different scenarios.
CaseParts = ScenarioFactory | Case | Sequence[ScenarioFactory | Case]


@dataclass(frozen=True)
class ExperimentRun:
    """The scenario of each seed, the schedulers that ran it, and the values of each metric."""

    scenario: ScenarioFactory
    schedulers: Mapping[str, Scheduler]
    values: Replicates


@dataclass(frozen=True)
class Log:
    """A job log: its file, and the number of processors per node."""

    path: str
    cores_per_node: int = 1


@dataclass(frozen=True)
class Desktops:
    """Files about real desktops: host availability, host speeds, and the jobs (bags) that run there."""

    availability: str
    speeds: str
    log: str


@dataclass(frozen=True)
class Run:
    """Settings of the runs of an experiment: seeds, full or quick, executor, and progress display.

    Parameters
    ----------
    log, desktops, availability, traces
        Files of experiments that read a log of jobs or bags, desktops, availability, or logs of tasks.
    record
        Finished runs, which are written beside the results.
    """

    seeds: Sequence[int]
    quick: bool = False
    executor: Executor | None = None
    progress: Progress = False
    log: Log | None = None
    desktops: Desktops | None = None
    availability: str | None = None
    traces: Sequence[str] = ()
    record: list[ExperimentRun] = field(default_factory=list)

    def choose(self, full: T, small: T) -> T:
        """Return the value for a full or a quick run."""
        return small if self.quick else full

    def replicate(
        self,
        scenario: ScenarioFactory,
        schedulers: Mapping[str, Scheduler],
        metrics: Metrics = ("max_stretch",),
    ) -> Replicates:
        """Run the schedulers on all seeds, and add the run to `record`."""
        values = replicate(
            scenario, schedulers, self.seeds, executor=self.executor, metrics=metrics, progress=self.progress
        )
        self.record.append(ExperimentRun(scenario, schedulers, values))
        return values

    def replicate_cases(
        self,
        cases: Mapping[Any, CaseParts],
        schedulers: Mapping[str, Scheduler] | None = None,
        metrics: Metrics = ("max_stretch",),
    ) -> Measurements:
        """Run all cases; `schedulers` and `metrics` apply to cases without their own."""

        def replicate_part(part: ScenarioFactory | Case) -> Replicates:
            part = part if isinstance(part, Case) else Case(part)
            selection = schedulers if part.schedulers is None else part.schedulers
            return self.replicate(part.scenario, selection or {}, part.metrics or metrics)

        measurements = {}
        for key, case in cases.items():
            values, *further = map(replicate_part, case if isinstance(case, Sequence) else [case])
            for item in further:
                values = values.joined(item)
            measurements[key] = values
        return Measurements(self, measurements)


@dataclass(frozen=True)
class Measurements(Mapping[Any, Replicates]):
    """Mapping of a case's name, or (group, name) if cases have groups, to its replications.

    Parameters
    ----------
    group
        The group to which the cases belong, if any.
    """

    run: Run
    cases: Mapping[Any, Replicates]
    group: str = ""

    def __getitem__(self, case: Any) -> Replicates:
        return self.cases[case]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def groups(self) -> Mapping[Any, Measurements]:
        """Group -> its cases by name; cases without a group belong to `group`."""
        groups: dict[Any, dict[Any, Replicates]] = {}
        for key, values in self.cases.items():
            group, case = key if isinstance(key, tuple) else (self.group, key)
            groups.setdefault(group, {})[case] = values
        return {group: Measurements(self.run, cases, group) for group, cases in groups.items()}

    @property
    def first(self) -> Replicates:
        """Replications of the first case."""
        return next(iter(self.cases.values()))

    @property
    def last(self) -> Replicates:
        """Replications of the last case."""
        return list(self.cases.values())[-1]


# -- reports --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultGrid:
    """A table without verdicts, mostly of values that the paper does not report.

    Parameters
    ----------
    rows
        Title -> cells.
    """

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Estimate | str]]


@dataclass(frozen=True)
class Report:
    """Results of an experiment: rows about claims, further tables, remarks, and the data of the figure."""

    seeds: Sequence[int]
    quick: bool
    rows: Sequence[Row]
    grids: Sequence[ResultGrid] = ()
    remarks: Sequence[str] = ()
    data: Any = None


# -- rows and tables as data ----------------------------------------------------------------------------

#: Content of a scheduler's cell: the mean of a metric, or a function of the replications and the scheduler.
Cell = str | Callable[[Replicates, str], Estimate | str]


@dataclass(frozen=True)
class Check:
    """A row for each case: a measured quantity and its comparison with the paper.

    Parameters
    ----------
    quantity
        Text of the measured quantity, in which ``{case}`` stands for the name of the case.
    value
        Function that returns the measured value.
    test
        The range that the paper states; None for a row without a verdict.
    """

    claim: str
    quantity: str
    value: Callable[[Replicates], Estimate]
    test: ClaimedRange | None = None
    unit: str = ""

    def row(self, case: Any, values: Replicates) -> Row:
        """Return the row of a case."""
        name = ", ".join(map(str, case)) if isinstance(case, tuple) else str(case)
        quantity = self.quantity.replace("{case}", name)
        return judge(self.claim, quantity, self.value(values), self.test, unit=self.unit)


def rows_of(checks: Sequence[Check | Sequence[Check]], cases: Mapping[Any, Replicates]) -> Iterator[Row]:
    """Return the rows, ordered by check, then case; within an inner sequence, by case, then check."""
    for item in checks:
        for case, values in cases.items():
            for check in [item] if isinstance(item, Check) else item:
                yield check.row(case, values)


def ratio(a: str, b: str, metric: str) -> Callable[[Replicates], Estimate]:
    """Return a function that computes the mean over seeds of the ratio of two schedulers."""
    return lambda values: values.mean_ratio(a, b, metric)


def ratio_of_means(a: str, b: str, metric: str) -> Callable[[Replicates], Estimate]:
    """Return a function that computes the ratio of the means of two schedulers."""
    return lambda values: values.ratio_of_means(a, b, metric)


def relative_to(base: str, metric: str) -> Cell:
    """Return a cell with the mean over seeds of the ratio of a metric to the scheduler `base`."""
    return lambda values, name: values.mean_ratio(name, base, metric)


def series(
    cases: Mapping[Any, Replicates], cell: Cell, names: Iterable[str] | None = None
) -> dict[str, list[Any]]:
    """Return scheduler -> its cell in each case, or "-" for a case that it does not run.

    By default, the schedulers are those of the first case.
    """
    names = next(iter(cases.values())).schedulers if names is None else names

    def cell_of(values: Replicates, name: str) -> Estimate | str:
        if name not in values.schedulers:
            return "-"
        return values.mean(name, cell) if isinstance(cell, str) else cell(values, name)

    return {name: [cell_of(values, name) for values in cases.values()] for name in names}


@dataclass(frozen=True)
class CaseTable:
    """A table with a row for each scheduler and a column for each case of a group.

    Parameters
    ----------
    title
        The title, in which ``{group}`` stands for the group of cases.
    names
        The schedulers; None for those of the first case.
    head
        Heading of the column with the names of the schedulers.
    """

    title: str
    cell: Cell
    names: Iterable[str] | None = None
    head: str = "scheduler"

    def grid(self, cases: Measurements) -> ResultGrid:
        """Return the table of the given cases."""
        title = self.title.replace("{group}", str(cases.group))
        return ResultGrid(title, [self.head, *map(str, cases)], series(cases, self.cell, self.names))


@dataclass(frozen=True)
class MetricTable:
    """A table with a row for each case and scheduler, and a column for each metric.

    Parameters
    ----------
    columns
        Metric -> heading.
    names
        The schedulers that have rows; None for all.
    """

    title: str
    columns: Mapping[str, str]
    names: Collection[str] | None = None

    def grid(self, cases: Mapping[Any, Replicates]) -> ResultGrid:
        """Return the table of the given cases."""
        rows = {
            f"{case}: {name}": [finite_or_dash(values.mean(name, metric)) for metric in self.columns]
            for case, values in cases.items()
            for name in values.schedulers
            if self.names is None or name in self.names
        }
        return ResultGrid(self.title, ["", *self.columns.values()], rows)


def finite_or_dash(value: Estimate) -> Estimate | str:
    """Return a cell of a table: the estimate, or "-" if the value was not measured for every seed."""
    return value if math.isfinite(value.mean) else "-"


# -- experiments ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A published experiment: its cases, schedulers, metrics, and the claims of its paper.

    `rows`, `grids`, `remarks` and `figure` are values, or functions of the result of `measure`, which by
    default is the `Measurements` of the cases.

    Parameters
    ----------
    name, title
        Name on the command line, and a description.
    paper
        Citation of the publication.
    claims
        Sentences of the paper; each is the `Row.claim` of the rows that determine its verdict.
    seeds
        Default numbers of seeds of a full and a quick run.
    files
        Files that can replace drawn values, if any; see `Run`.
    needs_files
        Whether the experiment requires these files.
    cases
        Function that returns name or (group, name) -> scenario factory, or `Case` with its own schedulers.
    schedulers, metrics
        Schedulers and metrics of all cases.
    measure
        Function that measures otherwise than case by case; None to run `cases`.
    rows, grids
        Rows about the claims, as in `rows_of`, and tables, each of which is repeated for every group of
        cases.
    remarks
        Remarks on choices that the paper leaves open.
    figure
        Function that draws the measurements.
    """

    name: str
    title: str
    paper: str
    claims: Sequence[str]
    seeds: tuple[int, int] = (10, 5)
    files: Files | None = None
    needs_files: bool = False
    cases: Callable[[Run], Mapping[Any, CaseParts]] = lambda run: {}
    schedulers: Mapping[str, Scheduler] | None = None
    metrics: Metrics = ("max_stretch",)
    measure: Callable[[Run], Any] | None = None
    rows: Sequence[Check | Sequence[Check]] | Callable[[Any], Iterable[Row]] = ()
    grids: Sequence[CaseTable | MetricTable] | Callable[[Any], Iterable[ResultGrid]] = ()
    remarks: Sequence[str] | Callable[[Any], Sequence[str]] = ()
    figure: Callable[[Any], Figure]

    def run(self, run: Run) -> Report:
        """Run the experiment and compare its measurements with the paper."""
        if self.measure is not None:
            data = self.measure(run)
        else:
            data = run.replicate_cases(self.cases(run), self.schedulers, self.metrics)
        rows = self.rows(data) if callable(self.rows) else rows_of(self.rows, data)
        remarks = self.remarks(data) if callable(self.remarks) else self.remarks
        return Report(tuple(run.seeds), run.quick, list(rows), list(self._grids(data)), tuple(remarks), data)

    def _grids(self, data: Any) -> Iterable[ResultGrid]:
        if callable(self.grids):
            return self.grids(data)
        return (table.grid(cases) for cases in data.groups.values() for table in self.grids)

    def draw(self, report: Report) -> Figure:
        """Draw the figure of a report."""
        return self.figure(report.data)


# -- metrics --------------------------------------------------------------------------------------------


def per_doubling(sizes: Sequence[int], values: Sequence[Any]) -> Any:
    """Return the growth per doubling of the size: the least-squares slope over log2(size) for each seed.

    Parameters
    ----------
    sizes
        K numbers of machines.
    values
        K arrays with a value for each of n seeds.
    """
    x = np.log2(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    return (x @ np.stack(list(values))) / (x @ x)


def latest_update(result: Result) -> float:
    """Return the maximum time from a change at a leaf after the first release until the root knows it, s."""
    updates = result.tables["updates"]
    since = updates["arrived"] - updates["age"] >= result.applications["release"].min()
    return float(updates["age"][since].max()) if since.any() else math.nan


# -- charts -----------------------------------------------------------------------------------------------


def panels(
    series: Mapping[str, Any],
    x: Sequence[float],
    properties: Mapping[str, Any],
    *,
    name_as: str = "title",
    shared: bool = False,
    level: float | None = None,
    minor_ticks: bool = True,
    columns: int | None = None,
) -> Figure:
    """Draw lines over `x`, one panel for each item of `series`.

    Parameters
    ----------
    series
        Name of the panel -> its lines, for `plots.lines`.
    properties
        Properties of the axes, such as ``xlabel``.
    name_as
        Property that is set to the name of the panel.
    shared
        Whether panels share their legend.
    level
        Height of a dotted horizontal line.
    minor_ticks
        Whether axes have minor ticks.
    columns
        Maximum number of panels in a row; None for all in one row.
    """
    from gridsim import plots

    width = min(columns or len(series), len(series))
    figure, places = plots.figure(width, rows=math.ceil(len(series) / width))
    for axes, (name, lines) in zip(places, series.items(), strict=True):
        plots.lines(x, lines, axes=axes)
        axes.set(**{**properties, name_as: name})
        if not minor_ticks:
            axes.minorticks_off()
        if level is not None:
            axes.axhline(level, color="black", linestyle=":", linewidth=1)
    if shared:
        plots.shared_legend(figure)
    return figure


def lines(
    x: tuple[Sequence[float], Sequence[float]],
    cell: Cell | Mapping[str, Cell],
    properties: Mapping[str, Any],
    names: Iterable[str] | None = None,
    **options: Any,
) -> Callable[[Measurements], Figure]:
    """Return a function that draws lines over the cases, one panel for each group of cases or each title.

    Parameters
    ----------
    x
        Positions of the cases of a full and of a quick run.
    cell
        The drawn cell, or title -> drawn cell.
    properties, options
        As in `panels`.
    """

    def draw(data: Measurements) -> Figure:
        if isinstance(cell, Mapping):
            lines = {title: series(data, metric, names) for title, metric in cell.items()}
        else:
            lines = {group: series(cases, cell, names) for group, cases in data.groups.items()}
        return panels(lines, data.run.choose(*x), properties, **options)

    return draw


def bar_panels(
    run: Run,
    bars: Mapping[str, tuple[Sequence[str], Sequence[Any], Sequence[float]]],
    properties: Mapping[str, Any],
) -> Figure:
    """Draw bars of measured values beside published ones, one panel for each title.

    A quick run is smaller than the published experiment, so its bars are drawn without published values.

    Parameters
    ----------
    bars
        Title -> labels, measured values, and published ones.
    properties
        Properties of the axes, such as ``xlabel``.
    """
    from gridsim import plots

    figure, places = plots.figure(max(1, len(bars)))
    for axes, (title, (labels, measured, published)) in zip(places, bars.items(), strict=False):
        plots.bars(labels, measured, [None if run.quick else value for value in published], axes=axes)
        axes.set(title=title, **properties)
    return figure
