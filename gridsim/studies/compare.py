"""compare(): several schedulers on one scenario or on replicas of it, and the table of what they came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, overload

from gridsim.errors import FileChanged, ScenarioError
from gridsim.model.scenario import Scenario
from gridsim.results.metrics.registry import UNITS, BoundKind, check_bound
from gridsim.results.result import Result
from gridsim.scheduling.contract import Scheduler
from gridsim.scheduling.registry import check_schedulers, make_scheduler, registered
from gridsim.simulation.simulate import Options, Record, Simulation, simulate
from gridsim.studies.comparison_table import about, columns_of, measure_of, ratio_of, remarks, rows_of
from gridsim.studies.execution.run_cells import check_executor
from gridsim.studies.replicate import Replicates, replicate
from gridsim.support.progress import Progress, watched
from gridsim.support.provenance import FirstRead
from gridsim.support.text import align, to_json


@dataclass(frozen=True)
class Comparison:
    """Results of several schedulers on one scenario.

    results : name -> `Result`, in the order in which they ran.
    baseline : the name whose `measure` counts as 1.
    bound : the kind of lower bound that the table sets maximum stretches over; see `Result.bound`.
    """

    scenario: Scenario
    results: Mapping[str, Result]
    baseline: str
    bound: BoundKind = "fluid"

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    @property
    def measure(self) -> str:
        """What schedulers are compared by; see `gridsim.studies.comparison_table.measure_of`."""
        return measure_of(self.results)

    def ratio(self, name: str) -> float:
        """`measure` of `name` relative to the baseline's."""
        return ratio_of(self.results, name, self.baseline)

    def table(self) -> list[dict[str, Any]]:
        """A row per scheduler: its name here, the ratio to the baseline, and `Result.summary`."""
        return rows_of(self.results, self.baseline, self.bound)

    def format(self) -> str:
        """Platform, workload and load; the table as aligned text; what each scheduler reports of itself."""
        rows = self.table()
        columns = columns_of(self.results, rows, self.baseline, self.bound)
        head = (f"{key:<8}  {value}" for key, value in about(self.results, self.baseline).items())
        lines = [*head, "", *align(columns, left=1), "", *remarks(rows, self.bound)]
        return "\n".join(lines).rstrip()

    __str__ = format

    def to_dict(self) -> dict[str, Any]:
        """Scenario (TOML), baseline, rows and their units, as plain values."""
        return {
            "scenario": self.scenario.to_toml(),
            "baseline": self.baseline,
            "schedulers": self.table(),
            "units": {**UNITS, "ratio": f"1 ({self.measure.replace('_', ' ')} / that of {self.baseline})"},
        }

    def to_json(self) -> str:
        """`to_dict` as JSON; infinite and undefined numbers are null."""
        return to_json(self.to_dict())


@overload
def compare(
    scenario: Scenario,
    schedulers: Mapping[str, Scheduler],
    *,
    progress: Progress = ...,
    baseline: str | None = ...,
    bound: BoundKind = ...,
    threads: int = ...,
    time_limit: float | None = ...,
    record: Record = ...,
    executor: Executor | None = ...,
    replicates: None = ...,
) -> Comparison: ...


@overload
def compare(
    scenario: Scenario,
    schedulers: Mapping[str, Scheduler],
    *,
    replicates: int,
    progress: Progress = ...,
    baseline: str | None = ...,
    time_limit: float | None = ...,
    executor: Executor | None = ...,
    **study: Any,
) -> Replicates: ...


def compare(
    scenario: Scenario,
    schedulers: Mapping[str, Scheduler],
    *,
    progress: Progress = False,
    baseline: str | None = None,
    bound: BoundKind = "fluid",
    threads: int = 1,
    time_limit: float | None = None,
    record: Record = False,
    executor: Executor | None = None,
    replicates: int | None = None,
    **study: Any,
) -> Comparison | Replicates:
    """Run each of `schedulers` on `scenario`, or on `replicates` replicas of it.

    baseline : the name to compare with; default: see `default_baseline`.
    bound : the kind of lower bound to set maximum stretches over, ``"fluid"`` or ``"discrete"``.
    threads, time_limit, record : as in `simulate`.
    executor : where the runs go; None runs them here, one after another.
    replicates : None: the scenario as it is, once; a number: means and paired ratios with intervals, by
        `gridsim.replicate` with the usual metrics, which `study` may change among its other arguments.
        `bound`, `threads` and `record` are for a single run.
    """
    check_schedulers(schedulers)
    if baseline is None:
        baseline = default_baseline(schedulers)
    elif baseline not in schedulers:
        raise ScenarioError(f"baseline must be one of {', '.join(schedulers)}, got {baseline!r}")
    if replicates is not None:
        if bound != "fluid" or threads != 1 or record:
            raise ScenarioError("bound, threads and record are for a single run, not for replicates")
        return replicate(
            scenario,
            schedulers,
            replicates=replicates,
            baseline=baseline,
            time_limit=time_limit,
            executor=executor,
            progress=progress,
            **{"metrics": None, **study},
        )
    if study:
        raise ScenarioError(f"{', '.join(study)} needs replicates")
    check_bound(bound)
    options: dict[str, Any] = {"threads": threads, "time_limit": time_limit}
    options["record"] = Options(record=record).record  # several names, for each of the runs
    check_executor(executor)
    results: dict[str, Result] = {}
    read = FirstRead()

    def have(name: str, result: Result) -> None:
        if file := read.other(result.provenance["files"], scenario.places()):
            raise FileChanged(f"{file} must be the same for all schedulers, got another one for {name}")
        results[name] = result

    if executor is None:
        for name, scheduler in schedulers.items():
            have(name, simulate(scenario, scheduler, progress=progress, **options))
    else:
        runs = {
            name: executor.submit(simulate, scenario, each, **options) for name, each in schedulers.items()
        }
        try:
            for name, run in watched(runs.items(), progress, len(runs), "runs"):
                have(name, run.result())
        finally:
            for run in runs.values():
                run.cancel()
    return Comparison(scenario, results, baseline, bound)


def applicable(
    scenario: Scenario, names: Iterable[str] | None = None
) -> tuple[dict[str, Scheduler], dict[str, str]]:
    """The schedulers known by name that can run `scenario`, and why the others cannot.

    names : of those to look at; None for all.  Each gets its parameters from ``scenario.schedulers``.  Of
        names that stand for the same scheduler the first one counts.

    Each is set up as for a run, so that this takes a while for a large scenario.
    """
    found: dict[str, Scheduler] = {}
    refused: dict[str, str] = {}
    for name in registered() if names is None else names:
        scheduler = make_scheduler(name, scenario.schedulers.get(name))
        if scheduler in found.values():
            continue
        try:
            Simulation(scenario, scheduler, Options())
        except ScenarioError as error:
            refused[name] = str(error)
        else:
            found[name] = scheduler
    return found, refused


def default_baseline(schedulers: Mapping[str, Scheduler]) -> str:
    """The one named ``mincent``, else the first that sees the whole grid, else the first.

    It depends on names and order alone, so that ratios of several runs have the same meaning.
    """
    if "mincent" in schedulers:
        return "mincent"
    central = [name for name, scheduler in schedulers.items() if not scheduler.decentralized]
    return next(iter(central or schedulers))
