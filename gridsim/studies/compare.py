"""compare(): runs several schedulers on one scenario, or on replications of it, and tabulates the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from gridsim.errors import FileChanged, ScenarioError, WarningScope, collect_warnings, variant_label, warn
from gridsim.model.sanity_checks import warn_unusual
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.results.job_groups import Group, JobGroups, known_groups
from gridsim.results.metrics.registry import UNITS, BoundKind, check_bound
from gridsim.results.metrics.selection import requested_metrics
from gridsim.results.metrics.window import checked_days, counted_applications
from gridsim.results.result import Result
from gridsim.results.table import Table
from gridsim.results.text import planned_lines
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import Schedulers, chosen_schedulers, make_scheduler, registered
from gridsim.simulation.options import Options, Record
from gridsim.simulation.simulate import Simulation, execute
from gridsim.studies.comparison_table import (
    NOT_OF_LOGS,
    cautions,
    comparison_table,
    context_lines,
    measure_of,
    names_without_rank,
    numeric_rows,
    ratio_of,
    remarks,
    rows_of,
    scalar,
    scenario_facts,
    verdict,
)
from gridsim.studies.exports import table_of_rows, to_csv
from gridsim.studies.groups import group_tables, numeric_group_rows
from gridsim.studies.log_reference import LOG, LogReference, log_reference
from gridsim.studies.overview import Overview, as_text
from gridsim.studies.queue_remark import shared_queues
from gridsim.studies.study import Study
from gridsim.support.announcement import announce
from gridsim.support.arguments import check_names, hint, suggest_arguments, unknown_name_error
from gridsim.support.progress import Progress, with_progress
from gridsim.support.provenance import TraceDigests
from gridsim.support.text import WIDTH

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from matplotlib.figure import Figure

    from gridsim.model.applications import Applications
    from gridsim.plots.charts import Chart
    from gridsim.studies.replicate_result import Replicates


@dataclass(frozen=True)
class Comparison(Study):
    """Results of several schedulers on one scenario, or on each of several.

    Parameters
    ----------
    scenario
        The scenario, or the first one.
    results
        Name -> `Result`, in the order in which they ran.
    baseline
        Name of the scheduler whose `measure` counts as 1, or "log".
    bound
        The kind of lower bound by which the table divides maximum stretches; see `Result.bound`.
    log
        The schedule recorded in the log from which the jobs come, as a reference: texts, charts and pages
        show it, but it is neither compared nor ranked.  None if there is none.
    log_remark
        Remark on `log`, or why there is none; see `gridsim.studies.log_reference`.
    groups
        The jobs of each scenario by queue, user, account, site or size; each grouping has a table of waiting
        times.
    warnings
        Texts of the warnings of the runs, such as the faults of a job log.
    scenarios
        Name -> scenario, if there are several; empty for one.
    queues
        A line on queues that share all machines, unlike in their log, by its key; see
        `gridsim.studies.queue_remark`.
    """

    scenario: Scenario
    results: Mapping[str, Result]
    baseline: str
    bound: BoundKind = "best"
    log: Result | None = None
    log_remark: str = ""
    groups: tuple[JobGroups, ...] = ()
    warnings: tuple[str, ...] = ()
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)
    queues: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Result:
        if name == LOG and self.log is not None:
            return self.log
        if name not in self.results:
            raise unknown_name_error("scheduler", name, self.results)
        return self.results[name]

    def __repr__(self) -> str:
        measure = self.measure.replace("_", " ")
        return f"<Comparison of {', '.join(self.results)} by {measure}, baseline {self.baseline}>"

    def overview(self, *, full: bool = False) -> Overview:
        """Return platform, workload and load; a row per scheduler; and the best scheduler by each metric.

        Parameters
        ----------
        full
            Include further metrics, wall times, digests and the facts that schedulers report.
        """
        results = self.all_results
        rows = rows_of(results, self.baseline, self.bound)
        lines = (remarks if full else cautions)(results, rows, self.bound)
        return Overview(
            {**context_lines(results, self.baseline), **self.queues},
            [
                comparison_table(results, rows, self.baseline, self.bound, verbose=full),
                *group_tables(self.groups, results),
            ],
            verdict(results, rows),
            [*lines, *filter(None, [self.log_remark])],
        )

    @property
    def all_results(self) -> dict[str, Result]:
        """The results, and after them, if there is one, the recorded schedule under the name "log"."""
        return {**self.results, **({} if self.log is None else {LOG: self.log})}

    def verdict(self) -> str:
        """Return a sentence on the best scheduler by each metric, and how each compares with the log.

        It is empty for a single scheduler without a log.
        """
        results = self.all_results
        return verdict(results, rows_of(results, self.baseline, self.bound))

    def runs(self) -> Table:
        """Return the rows of `table` as columns of numbers and texts that all schedulers have."""
        rows = self.table()
        names = [name for name in rows[0] if all(scalar(row.get(name)) for row in rows)]
        return Table({name: [row[name] for row in rows] for name in names})

    def means(self) -> Table:
        """Return the tables of `overview` as one, with plain numbers.

        A row is a scheduler or the log, and below these, with values in the columns ``by`` and ``group``, a
        scheduler or the log in one of `groups`.  Values that a row does not have are NaN.  Ratios are of
        ranked rows only.  The column ``parameters`` has those of the scheduler as JSON.
        """
        results = self.all_results
        return table_of_rows(
            numeric_rows(results, rows_of(results, self.baseline, self.bound), self.baseline)
            + [row for group in self.groups for row in numeric_group_rows(group, results)]
        )

    def to_csv(self) -> str:
        """Return `means` as CSV, with units in the head; values that are not finite are empty."""
        return to_csv(self.means(), {**UNITS, "rejected": UNITS["failed"], "killed": UNITS["terminated"]})

    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return a chart of the distribution of the stretch, or of the waiting time of rigid jobs."""
        from gridsim.plots.charts import result_chart  # takes long to import

        return [[result_chart(self.all_results, exclusions=self._exclusions())]]

    def _exclusions(self) -> set[str]:
        """Return the names that are not ranked."""
        results = self.all_results
        return names_without_rank(results, rows_of(results, self.baseline, self.bound))

    def plot(self, kind: str = "distribution", **options: Any) -> Figure:
        """Draw the results together, or a chart each; see `Result.plot`."""
        from gridsim.studies.figures import SHARED_CHARTS, of_results

        if kind == "distribution":
            options["exclusions"] = self._exclusions()
        return of_results(kind, self.all_results if kind in SHARED_CHARTS else self.results, **options)

    @property
    def measure(self) -> str:
        """The metric by which schedulers are compared; see `gridsim.studies.comparison_table.measure_of`."""
        return measure_of(self.results)

    def ratio(self, name: str) -> float:
        """Return the ratio of the `measure` of `name` to the baseline."""
        return ratio_of(self.all_results, name, self.baseline)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per scheduler: its name here, the ratio to the baseline, and `Result.summary`.

        There is no row for the log.
        """
        rows = rows_of(self.all_results, self.baseline, self.bound)
        return [row for row in rows if row["name"] in self.results]

    def format(
        self,
        *,
        width: int = WIDTH,
        verbose: bool = False,
        plan: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Return as text: platform, workload and load; the table; a line on the best scheduler by metric.

        Parameters
        ----------
        width
            Characters of a line.  Where they are too few for all columns, the least important ones are left
            out; if that is not enough, the last columns follow below.
        verbose
            Include further metrics, wall times, digests and the facts that schedulers report.
        plan
            Facts that are left out, since they were printed before the runs.
        """
        return as_text(self.overview(full=verbose), width, plan)

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario (TOML), the baseline, the rows and their units as plain values.

        With several scenarios the entry ``scenarios`` has that of each row.  The recorded schedule, if there
        is one, is not among the schedulers, but the entry ``log``.  The entry ``by`` has the waiting times by
        queue, user, account, site or size, with several scenarios those of each in rows of their own.
        """
        reference: dict[str, Any] = {}
        if self.log is not None:
            summary = self.log.summary()
            reference["log"] = {name: value for name, value in summary.items() if name not in NOT_OF_LOGS}
        if self.log_remark:
            reference["log_remark"] = self.log_remark
        if self.groups:
            rows: dict[str, list[dict[str, Any]]] = {group.group: [] for group in self.groups}
            for group in self.groups:
                rows[group.group] += group.rows(self.all_results)
            reference["by"] = rows
        scenarios = {name: scenario.to_toml(schedulers=False) for name, scenario in self.scenarios.items()}
        return {
            "scenario": self.scenario.to_toml(),
            **({"scenarios": scenarios} if scenarios else {}),
            "baseline": self.baseline,
            "schedulers": self.table(),
            **reference,
            "units": {**UNITS, "ratio": f"1 ({self.measure.replace('_', ' ')} / that of {self.baseline})"},
        }


@overload
def compare(
    scenario: Scenario | Mapping[str, Scenario],
    schedulers: Schedulers,
    *,
    progress: Progress = ...,
    baseline: str | None = ...,
    bound: BoundKind = ...,
    skip_days: float = ...,
    threads: int = ...,
    time_limit: float | None = ...,
    record: Record = ...,
    executor: Executor | None = ...,
    log: bool = ...,
    by: Sequence[Group] = ...,
    replicates: None = ...,
) -> Comparison: ...


@overload
def compare(
    scenario: Scenario,
    schedulers: Schedulers,
    *,
    replicates: int,
    progress: Progress = ...,
    baseline: str | None = ...,
    skip_days: float = ...,
    by: Sequence[Group] = ...,
    time_limit: float | None = ...,
    executor: Executor | None = ...,
    **study: Any,
) -> Replicates: ...


@suggest_arguments
def compare(
    scenario: Scenario | Mapping[str, Scenario],
    schedulers: Schedulers,
    *,
    progress: Progress = False,
    baseline: str | None = None,
    bound: BoundKind = "best",
    skip_days: float = 0.0,
    threads: int = 1,
    time_limit: float | None = None,
    record: Record = False,
    executor: Executor | None = None,
    log: bool = True,
    by: Sequence[Group] = (),
    replicates: int | None = None,
    **study: Any,
) -> Comparison | Replicates:
    """Run each of `schedulers` on `scenario`, or on `replicates` replications of it.

    Parameters
    ----------
    scenario
        A scenario, or label -> scenario, for example with more machines: then each scheduler has a row for
        each of them, called NAME LABEL, and the first one is that of the baseline.
    schedulers
        Name -> scheduler, or a list of schedulers and of names, such as ``["fair-tree", gs.MinCent()]``.  A
        name gets its parameters from ``scenario.schedulers``.
    baseline
        The name of the scheduler to compare with, or ``"log"`` for the recorded schedule; default: see
        `default_baseline`.
    bound
        The kind of lower bound by which maximum stretches are divided, ``"best"``, ``"fluid"`` or
        ``"discrete"``; see `Result.bound`.
    skip_days
        Number of days at the beginning whose applications do not count in metrics; see
        `Result.without_first_days`.
    threads, time_limit, record
        As in `simulate`.
    executor
        Runs the simulations; None runs them in this process, one after another.
    log
        Whether to show the schedule recorded in the job log from which rigid jobs come, as a reference, if
        jobs and machines are those of the log.  Otherwise a remark says why it is not shown.
    by
        What rigid jobs are grouped by: ``"queue"``, ``"user"``, ``"account"`` or ``"site"``; each has a
        table of mean waiting times.
    replicates
        How many replications to run.  None runs the scenario as it is, once, and returns a `Comparison`.  A
        number runs `gridsim.replicate` with the usual metrics, and returns `Replicates` with means and paired
        ratios with intervals; `bound`, `threads` and `record` cannot be given then.
    study
        Further arguments of `gridsim.replicate`, such as metrics; only with `replicates`.
    """
    scenarios = dict(scenario) if isinstance(scenario, Mapping) else {"": scenario}
    if not scenarios:
        raise ScenarioError("scenario must have at least one scenario, got none")
    for one in scenarios.values():
        check_scenario(one)
    first = next(iter(scenarios.values()))
    _check_study(study)
    schedulers = chosen_schedulers(schedulers, first.schedulers)
    cells = {_cell(name, label): (name, one) for name in schedulers for label, one in scenarios.items()}
    if baseline is None:
        baseline = default_baseline(schedulers)
    elif baseline not in schedulers and (baseline != LOG or not log or replicates is not None):
        raise ScenarioError(
            f"baseline must be one of {', '.join(schedulers)}, got {baseline!r}{hint(schedulers, baseline)}"
        )
    if baseline in schedulers:
        baseline = next(cell for cell, (name, _) in cells.items() if name == baseline)
    if replicates is not None:
        if bound != "best" or threads != 1 or record:
            raise ScenarioError(
                "replicates does not support bound, threads and record, which are for single runs"
            )
        if isinstance(scenario, Mapping):
            raise ScenarioError("replicates requires one scenario; gridsim.sweep has replications of several")
        from gridsim.studies.replicate import replicate

        return replicate(
            scenario,
            schedulers,
            replicates=replicates,
            baseline=baseline,
            skip_days=skip_days,
            by=by,
            time_limit=time_limit,
            executor=executor,
            progress=progress,
            **{"metrics": None, **study},
        )
    if study:
        if study.get("metrics") is not None:
            requested_metrics(study["metrics"])  # a misspelt name is the first fault to state
        raise ScenarioError(f"{', '.join(study)} requires replicates")
    check_bound(bound)
    skip_days = checked_days(skip_days)
    options: dict[str, Any] = {"threads": threads, "time_limit": time_limit}
    options["record"] = Options(record=record).record  # an iterator of names could be used only once
    for one in scenarios.values():
        warn_unusual(one, stacklevel=4)  # above `suggest_arguments`
    results: dict[str, Result] = {}
    read = TraceDigests()

    def check_files(name: str, result: Result) -> None:
        # the recorded schedule is read from the logs alone, without traces of failures
        places = cells[name][1].places() if name in cells else {}
        if file := read.changed_file(result.files_read, places):
            raise FileChanged(f"{file} must not change during the comparison, got other content for {name}")

    def have(name: str, result: Result) -> None:
        check_files(name, result)
        results[name] = result.without_first_days(skip_days)

    scope = WarningScope()
    reference, log_label = LogReference(), next(iter(scenarios))
    with scope:
        for one in scenarios.values() if skip_days else ():
            counted_applications(one.workload.realize(one.platform).release, skip_days)
        labelled_groups = known_groups(by, scenarios)
        if log:
            references = {label: log_reference(one) for label, one in scenarios.items()}
            log_label = next((k for k, each in references.items() if each.result is not None), log_label)
            reference = references[log_label]
    groups = [group for _, group in labelled_groups]
    if len(scenarios) > 1:
        groups = [
            group._replace(label=label, runs=_runs(schedulers, label, has_log=label == log_label))
            for label, group in labelled_groups
        ]
    if reference.result is not None and LOG in cells:
        reference = LogReference(remark=f"no row for the log: a scheduler is called {LOG}")
    elif baseline == LOG and reference.result is None and LOG not in cells:
        reason = reference.remark or "the jobs come from no log"
        raise ScenarioError(f"baseline must be one of {', '.join(schedulers)}, got {LOG!r}: {reason}")

    queues: dict[str, str] = {}
    if first.workload.rigid:
        with scope:
            queues = shared_queues(first, schedulers.values(), _check_runs(cells, schedulers, options))

    def plan(applications: Applications | None = None) -> dict[str, str]:
        return _plan_lines(cells, schedulers, baseline, skip_days, applications) | queues

    if executor is None:
        for cell, (name, one) in cells.items():
            with scope, variant_label(name, schedulers[name].name):
                result = execute(one, schedulers[name], progress=progress, plan=plan, **options)
            have(cell, result)
    else:
        from gridsim.studies.execution.executors import executor_for
        from gridsim.studies.execution.run_executor import WorkerLost

        Options(**options)
        announce(plan)
        with executor_for(executor) as target:
            target.prepare(schedulers.values())
            runs = {
                cell: target.submit(_run_in_worker, one, name, schedulers[name], options)
                for cell, (name, one) in cells.items()
            }
            try:
                for name, run in with_progress(runs.items(), progress, len(runs), "runs"):
                    try:
                        result, notes = target.wait_for(run)
                    except WorkerLost as error:
                        raise WorkerLost(f"{name}: {error}") from error
                    with scope:
                        for category, message in notes:
                            warn(message, category, stacklevel=2)
                    have(name, result)
            finally:
                for run in runs.values():
                    run.cancel()
    if reference.result is not None:
        check_files(LOG, reference.result)
    return Comparison(
        first,
        results,
        baseline,
        bound,
        reference.result and reference.result.without_first_days(skip_days),
        reference.remark,
        tuple(groups),
        tuple(scope.messages),
        {cell: one for cell, (_, one) in cells.items()} if len(scenarios) > 1 else {},
        queues,
    )


def _check_runs(
    cells: Mapping[str, tuple[str, Scenario]], schedulers: Mapping[str, Scheduler], options: Mapping[str, Any]
) -> Applications:
    """Raise the errors of all runs before the first one; return the applications of the first scenario.

    Each run is set up; those of a scenario follow each other, since its workload is then read only once.
    """
    applications: list[Applications] = []
    for scenario in {id(one): one for _, one in cells.values()}.values():
        for name in (name for name, one in cells.values() if one is scenario):
            with variant_label(name, schedulers[name].name):
                simulation = Simulation(scenario, schedulers[name], Options(**options))
            applications = applications or [simulation.input_applications]
    return applications[0]


def _plan_lines(
    cells: Mapping[str, tuple[str, Scenario]],
    schedulers: Mapping[str, Scheduler],
    baseline: str,
    skip_days: float,
    applications: Applications | None,
) -> dict[str, str]:
    """Return what is known before the runs: platform, workload, load, known times and the baseline.

    Parameters
    ----------
    cells
        Name of each run -> name of its scheduler, and its scenario.
    applications
        The applications of the first scenario, if they are known.
    """
    scenarios = {id(one): one for _, one in cells.values()}
    first = next(iter(scenarios))
    lines_of = {
        key: planned_lines(one, applications if key == first else None, skip_days=skip_days)
        for key, one in scenarios.items()
    }
    estimates = {
        cell: str(getattr(schedulers[name], "estimate", "") or "")
        for cell, (name, _) in cells.items()
        if schedulers[name].rigid
    }
    return scenario_facts({cell: lines_of[id(one)] for cell, (_, one) in cells.items()}, estimates, baseline)


def _cell(name: str, label: str) -> str:
    """Return the name of the run of a scheduler on the scenario `label`, which is "" for the only one."""
    return f"{name} {label}" if label else name


def _runs(names: Iterable[str], label: str, *, has_log: bool) -> tuple[str, ...]:
    """Return the names of the runs on the scenario `label`, and of the log, if it has the same jobs."""
    return (*(_cell(name, label) for name in names), *([LOG] if has_log else []))


def _run_in_worker(
    scenario: Scenario, name: str, scheduler: Scheduler, options: Mapping[str, Any]
) -> tuple[Result, list[tuple[type[Warning], str]]]:
    """Return the result of a run, and the warnings issued in a worker process: (category, message)."""
    with collect_warnings() as notes, variant_label(name, scheduler.name):
        result = execute(scenario, scheduler, **options)
    return result, notes


def _check_study(study: Mapping[str, Any]) -> None:
    """Raise ScenarioError if one of `study` is an argument neither of `compare` nor of `replicate`."""
    if not study:
        return
    from inspect import signature

    from gridsim.studies.replicate import replicate

    check_names("compare", study, (*signature(compare).parameters, *signature(replicate).parameters))


def applicable(
    scenario: Scenario, names: Iterable[str] | None = None
) -> tuple[dict[str, Scheduler], dict[str, str]]:
    """Return the schedulers known by name that can run `scenario`, and why the others cannot.

    The result is (name -> scheduler, name -> reason).  Each scheduler is set up as for a run, so this takes a
    while for a large scenario.

    Parameters
    ----------
    names
        Names of the schedulers to try; None for all.  Each gets its parameters from ``scenario.schedulers``.
        Where several names stand for the same scheduler, the first one is taken.
    """
    schedulers: dict[str, Scheduler] = {}
    reasons: dict[str, str] = {}
    for name in registered() if names is None else names:
        scheduler = make_scheduler(name, scenario.schedulers.get(name))
        same = next((other for other, known in schedulers.items() if known == scheduler), None)
        if same is not None:
            reasons[name] = f"it is the same scheduler as {same}"
            continue
        try:
            Simulation(scenario, scheduler, Options())
        except ScenarioError as error:
            reasons[name] = str(error).partition("; ")[0]  # without its hint
        else:
            schedulers[name] = scheduler
    return schedulers, reasons


def default_baseline(schedulers: Mapping[str, Scheduler]) -> str:
    """Return the name of the default baseline.

    It is ``mincent`` if present, else the first one that declares to be one (`Scheduler.is_baseline`), else
    the first scheduler that sees the whole grid, else the first one.  It depends on names, parameters and
    order alone, so that ratios of several runs have the same meaning.
    """
    if "mincent" in schedulers:
        return "mincent"
    for name, scheduler in schedulers.items():
        if scheduler.is_baseline:
            return name
    central = [name for name, scheduler in schedulers.items() if not scheduler.decentralized]
    return next(iter(central or schedulers))
