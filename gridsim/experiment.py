"""compare(): several schedulers on one scenario or on replicas of it, and the table of what they came to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, overload

from gridsim.bounds import BOUND_LIMIT
from gridsim.errors import ScenarioError
from gridsim.naming import check_schedulers, make_scheduler
from gridsim.progress import Progress, watched
from gridsim.records import align, to_json
from gridsim.replication import Replicates, replicate
from gridsim.results import BoundKind, Result, check_bound
from gridsim.scenario import Scenario
from gridsim.scheduler import Scheduler, registered
from gridsim.simulation import Options, Record, Simulation, simulate
from gridsim.units import UNITS

# Head, unit, and what stands in a row of `Comparison.table`.
_Cells = tuple[str, str, Callable[[dict[str, Any]], str]]


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
        """What schedulers are compared by: max_stretch, of rigid jobs mean_waiting, of work queues
        mean_completion, of jobs that may move mean_turnaround."""
        if self.scenario.workload.rigid:
            return "mean_waiting"
        for table, measure in (("jobs", "mean_turnaround"), ("cycles", "mean_completion")):
            if all(table in result.tables for result in self.results.values()):
                return measure
        return "max_stretch"

    def ratio(self, name: str) -> float:
        """`measure` of `name` relative to the baseline's."""
        mine, other = (getattr(self.results[each], self.measure) for each in (name, self.baseline))
        if other:
            return float(mine / other)
        return math.inf if mine else math.nan

    def table(self) -> list[dict[str, Any]]:
        """A row per scheduler: its name here, the ratio to the baseline, and `Result.summary`."""
        return [
            {"name": name, "ratio": self.ratio(name), **result.summary(self.bound)}
            for name, result in self.results.items()
        ]

    def format(self) -> str:
        """Platform, workload and load; the table as aligned text; what each scheduler reports of itself."""
        rows = self.table()
        columns = [["scheduler", "", *(row["name"] for row in rows)]]
        own = self._of_jobs() if self.scenario.workload.rigid else self._of_bags(rows)
        for title, below, cell in (
            *own,
            ("makespan", "s", lambda row: f"{row['makespan']:.1f}"),
            ("busy", "%", lambda row: f"{100 * row['utilization']:.1f}"),
            ("messages", "", lambda row: f"{row['messages']}"),
            ("traffic", "MB", lambda row: f"{row['bytes'] / 1e6:.2f}"),
            ("wall", "s", lambda row: f"{row['wall_seconds'] or math.nan:.2f}"),
            ("digest", "", lambda row: row["digest"][:16]),
        ):
            columns.append([title, below, *map(cell, rows)])
        about = next(iter(self.results.values())).describe_scenario()
        about["baseline"] = f"{self.baseline} (its {self.measure.replace('_', ' ')} counts as 1)"
        lines = [*(f"{key:<8}  {value}" for key, value in about.items()), "", *align(columns, left=1), ""]
        for row in rows:
            facts = (f"{key} {_short(value)}" for key, value in row["facts"].items() if _scalar(value))
            if said := ", ".join(facts):
                lines.append(f"{row['name']}: {said}")
        if not self.scenario.workload.rigid and any(row["gap"] is None for row in rows):
            lines.append(f"no {self.bound} bound: it is computed for up to {BOUND_LIMIT} applications")
        return "\n".join(lines).rstrip()

    def _of_bags(self, rows: list[dict[str, Any]]) -> tuple[_Cells, ...]:
        largest = max(row["max_stretch"] for row in rows)
        exponent = -8  # as the fair-tree papers print it, unless that makes long numbers
        while largest / 10.0**exponent >= 1e6:
            exponent += 3
        unit = f"1e{exponent} s/Mflop"
        return (
            ("completed", "tasks", lambda row: self._completed(row["name"])),
            ("max stretch", unit, lambda row: f"{row['max_stretch'] / 10.0**exponent:.5g}"),
            ("mean", f"1e{exponent}", lambda row: f"{row['mean_stretch'] / 10.0**exponent:.5g}"),
            ("relative", f"to {self.baseline}", lambda row: f"{row['ratio']:.3f}"),
            ("over the", f"{self.bound} bound", lambda row: f"{row['gap']:.3f}" if row["gap"] else "-"),
            ("S * s_agg", "max", lambda row: f"{row['max_stretch_agg']:.5g}"),
            *(self._of_turnaround() if any("migrated" in row for row in rows) else ()),
            *(self._of_cycles() if any("wasted" in row for row in rows) else ()),
        )

    def _of_turnaround(self) -> tuple[_Cells, ...]:
        def cell(name: str, digits: int, factor: float = 1.0) -> Callable[[dict[str, Any]], str]:
            return lambda row: f"{factor * row[name]:.{digits}g}" if name in row else "-"

        return (
            ("turnaround", "mean, s", cell("mean_turnaround", 6)),
            ("migrated", "%", cell("migrated", 4, 100.0)),
        )

    def _of_cycles(self) -> tuple[_Cells, ...]:
        return (
            ("completion", "mean, s", lambda row: f"{row['mean_completion']:.6g}"),
            ("wasted", "%", lambda row: f"{100 * row['wasted']:.3g}" if "wasted" in row else "-"),
        )

    def _of_jobs(self) -> tuple[_Cells, ...]:
        return (
            ("given up", "jobs", lambda row: f"{row['failed']}"),
            ("waiting", "mean, s", lambda row: f"{row['mean_waiting']:.6g}"),
            ("relative", f"to {self.baseline}", lambda row: f"{row['ratio']:.3f}"),
            ("waiting", "median, s", lambda row: f"{row['median_waiting']:.6g}"),
            ("slowdown", "mean", lambda row: f"{row['mean_slowdown']:.4g}"),
        )

    __str__ = format

    def _completed(self, name: str) -> str:
        result = self.results[name]
        done, given = int(result.machines["tasks"].sum()), int(result.applications["tasks"].sum())
        return "all" if done == given else f"{done} of {given}"

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
    if executor is None:
        results = {
            name: simulate(scenario, scheduler, progress=progress, **options)
            for name, scheduler in schedulers.items()
        }
    else:
        runs = {
            name: executor.submit(simulate, scenario, each, **options) for name, each in schedulers.items()
        }
        try:
            done = watched(runs.items(), progress, len(runs), "runs")
            results = {name: run.result() for name, run in done}
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


def _scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
