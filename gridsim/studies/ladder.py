"""ladder(): measures the cost of decentralization step by step.

The first step is a single scheduler that knows everything, the last one many nodes that do not.  Each step
gives up something: exact information, messages that cost nothing, one decision for all, or machines that do
not fail.  All steps run on the same machines, arrivals and delays, so that the cost of a step is estimated
from pairs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np

from gridsim.errors import ScenarioError
from gridsim.model.faults import Faults
from gridsim.model.sanity_checks import warn_unusual
from gridsim.model.scenario import Scenario, check_scenario
from gridsim.optimization.bounds import BOUND_LIMIT
from gridsim.plots.charts import Chart, ChartAxis, WaterfallChart
from gridsim.plots.style import with_unit
from gridsim.results.metrics.estimates import LEVEL, Estimate
from gridsim.results.metrics.registry import UNITS
from gridsim.results.table import Table
from gridsim.schedulers import Asap, MinCent
from gridsim.scheduling.contract import LadderStep, Scheduler
from gridsim.scheduling.description import describe
from gridsim.scheduling.nodes.board import BoardScheduler
from gridsim.scheduling.registry import make_scheduler, scheduler_of
from gridsim.studies.execution.cell import Cell
from gridsim.studies.execution.collect import collect
from gridsim.studies.execution.store import store_of
from gridsim.studies.exports import estimate_columns, rows_table
from gridsim.studies.overview import Overview, TextTable
from gridsim.studies.replicate import replication
from gridsim.studies.replicate_result import Replicates, replicates_of
from gridsim.studies.study import Study
from gridsim.studies.verdicts import TOLERANCE
from gridsim.support.arguments import integer, real, suggest_arguments, unknown_name_error
from gridsim.support.text import number_text

#: Mean time between failures of a machine in the fair tree papers, s; such a failure is transient.
FAILURES = 14_400.0
#: Whether jobs are rigid -> metrics that are measured; steps are compared by the first.
MEASURES = {False: ("max_stretch", "mean_stretch"), True: ("mean_waiting", "mean_slowdown", "failed")}
#: Whether jobs are rigid -> the scheduler at the end of the ladder by default.
DEFAULT_SCHEDULERS = {False: "fair-tree", True: "dgs-asap"}
#: What a comparison adds to its step.
_COMPARISON_TEXT = "the same with the same failures"
#: Metric -> factor by which it is shown, as in the fair tree papers.
_FACTORS = {"max_stretch": 1e8, "mean_stretch": 1e8}


@dataclass(frozen=True)
class Step:
    """A step of the ladder.

    Parameters
    ----------
    name, adds
        Its name, and in words what is different from the step before.
    scenario, scheduler
        What is run; None for the scheduler stands for the lower bound of the applications.
    beside
        Whether it is not a step of the ladder, but a comparison: another scheduler on the scenario of the
        last step.
    """

    name: str
    adds: str
    scenario: Scenario
    scheduler: Scheduler | None
    beside: bool = False


@dataclass(frozen=True)
class Ladder(Study):
    """The results of a ladder.

    Parameters
    ----------
    scenario
        The scenario from which the steps are made; each step changes it further.
    steps
        The steps from the top down, then the comparisons (``beside``).
    replicates
        The values, by the names of steps; see `gridsim.Replicates`.
    """

    scenario: Scenario
    steps: tuple[Step, ...]
    replicates: Replicates

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the metrics that were measured; steps are compared by the first."""
        return tuple(self.replicates.values)

    def table(self, measure: str | None = None) -> list[dict[str, Any]]:
        """Return one row per step: name, adds, beside, mean, difference, ratio, over_first.

        mean is an `Estimate` over replications.  difference and ratio are relative to the step before, and
        over_first is the ratio to the first step; all are paired by replication, and ratios are of means.
        They are None in the first row.  A comparison (key ``beside``) has no difference, and its ratio is
        that of the last step to it.

        Parameters
        ----------
        measure
            One of `measures`; None for the first.  Only max_stretch has a row for the lower bound.
        """
        measure = self.measures[0] if measure is None else measure
        if measure not in self.measures:
            raise unknown_name_error("measure", measure, self.measures)
        steps = [step for step in self.steps if step.scheduler is not None or measure == "max_stretch"]
        names = [step.name for step in steps if not step.beside]
        replicates, rows = self.replicates, []
        for number, step in enumerate(steps):
            predecessor = names[number - 1] if number and not step.beside else None
            ratio = (
                (step.name, predecessor) if predecessor else (names[-1], step.name) if step.beside else None
            )
            rows.append(
                {
                    "name": step.name,
                    "adds": step.adds,
                    "beside": step.beside,
                    "mean": replicates.mean(step.name, measure),
                    "difference": replicates.difference(step.name, predecessor, measure)
                    if predecessor
                    else None,
                    "ratio": replicates.ratio_of_means(*ratio, measure) if ratio else None,
                    "over_first": replicates.ratio_of_means(step.name, names[0], measure) if number else None,
                }
            )
        return rows

    def overview(self, *, full: bool = False) -> Overview:
        """Return a table for each measure, and the contribution of each step."""
        count = len(self.replicates.seeds)
        measures = [measure for measure in self.measures if self._is_shown(measure)]
        notes = dict.fromkeys(row["mean"].note for measure in measures for row in self.table(measure))
        values = f"means over {count} replications [{LEVEL:.0%} intervals], differences and ratios in pairs"
        return Overview(
            {"values": values},
            [self._step_table(measure) for measure in measures],
            remarks=[f"{step.name}: {step.adds}" for step in self.steps],
            failures=[
                f"intervals of {count} replication{'s' * (count > 1)}: {note}"
                for note in notes
                if note and note != "all equal"
            ],
            title=f"Steps from {self.steps[0].name} to {[s.name for s in self.steps if not s.beside][-1]}",
        )

    def _is_shown(self, measure: str) -> bool:
        return measure != "failed" or any(row["mean"].mean for row in self.table(measure))

    def _step_table(self, measure: str) -> TextTable:
        """Return a row per step: the mean, and the change by the step; comparisons are notes."""
        factor, name = _FACTORS.get(measure, 1.0), measure.replace("_", " ")
        heads = ("step", name, "difference", "ratio", "to the first")
        rows, notes = [], []
        for row in self.table(measure):
            mean, ratio = _estimate_text(row["mean"], _plain, factor), _estimate_text(row["ratio"])
            if row["beside"]:
                notes.append(f"beside: {row['name']}: {mean}; the last step is {ratio} times that")
                continue
            change = row["difference"] and _estimate_text(_difference(row), _signed_text, factor)
            rows.append([row["name"], mean, change or "", ratio, _estimate_text(row["over_first"])])
        unit = "" if _unit(measure) == "1" else _unit(measure).removeprefix("1 ")
        caption = f"{name} {unit}" if unit.startswith("(") else f"{name}, {unit}".removesuffix(", ")
        return TextTable(caption, [(head, "") for head in heads], rows, notes)

    def __repr__(self) -> str:
        return f"<Ladder: {', '.join(step.name for step in self.steps)}>"

    def runs(self) -> Table:
        """Return a table with a row per replication and step, and a column per metric."""
        return self.replicates.runs()

    def means(self) -> Table:
        """Return a table with a row per measure and step: the mean, and its ratio to the first step."""
        rows = [
            {
                "measure": measure,
                "unit": UNITS[measure],
                "step": row["name"],
                "n": len(self.replicates.seeds),
                **estimate_columns(row["mean"]),
                **estimate_columns(row["over_first"], "ratio"),
            }
            for measure in self.measures
            for row in self.table(measure)
        ]
        return rows_table(rows)

    def charts(self, *, full: bool = False) -> list[list[Chart]]:
        """Return a waterfall of the first measure, and for pages one of each measure."""
        measures = [measure for measure in self.measures if self._is_shown(measure)]
        return [[self._waterfall(measure) for measure in measures[: None if full else 1]]]

    def _waterfall(self, measure: str) -> Chart:
        name, factor = measure.replace("_", " "), _FACTORS.get(measure, 1.0)
        rows = [row for row in self.table(measure) if not row["beside"]]
        start, *steps, end = (
            estimate.scale(factor)
            for estimate in (rows[0]["mean"], *(_difference(row) for row in rows[1:]), rows[-1]["mean"])
        )
        note = "labels: change in % of the first step" if start.mean else "labels: change"
        return WaterfallChart(
            title=f"Steps of the {name}",
            caption=f"{name.capitalize()} of the first step, what each further step adds, and all together: "
            f"means over {len(self.replicates.seeds)} replications.",
            x=ChartAxis(with_unit(name, _unit(measure)), note=note),
            names=[row["name"] for row in rows],
            start=start,
            steps=steps,
            end=end,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario, schedulers, tables and values of all replications, as plain values."""
        return {
            "scenario": self.scenario.to_toml(),
            "replicates": len(self.replicates.seeds),
            "units": {measure: UNITS[measure] for measure in self.measures},
            "steps": [
                {
                    "name": step.name,
                    "adds": step.adds,
                    "beside": step.beside,
                    "scheduler": None if step.scheduler is None else describe(step.scheduler),
                    "network": msgspec.to_builtins(step.scenario.network),
                    "faults": step.scenario.faults and msgspec.to_builtins(step.scenario.faults.recipe),
                }
                for step in self.steps
            ],
            "tables": {
                measure: [
                    {
                        key: asdict(value) if isinstance(value, Estimate) else value
                        for key, value in row.items()
                    }
                    for row in self.table(measure)
                ]
                for measure in self.measures
            },
            "values": self.replicates.to_dict()["values"],
        }


@suggest_arguments
def ladder(
    scenario: Scenario,
    replicates: int = 10,
    *,
    scheduler: Scheduler | str | None = None,
    faults: Faults | None = None,
    ages: Sequence[float] = (),
    time_limit: float | None = None,
    **options: Any,
) -> Ladder:
    """Run each step on `replicates` replications of `scenario`, see `gridsim.replication`.

    Raises ScenarioError for invalid arguments, GridSimError for the first run that fails.

    Parameters
    ----------
    scheduler
        The scheduler at the end of the ladder, or its name, which declares its steps
        (`Scheduler.ladder_steps`), as all that are decentralized do; None for a `FairTree`, or a `DgsAsap`
        for rigid jobs.  A name gets the parameters that the scenario has for it.
    faults
        The faults of the last step; None for those of the scenario, or else, for bags of tasks, the transient
        failures of the fair tree papers.  All other steps run without faults.
    ages
        s, ascending, how old what nodes see of others is, each a step; for one that derives from
        `BoardScheduler`, of which the last step has the last age.  By default its own age.
    time_limit
        As in `simulate`.
    options
        Executor, batch, store, retry, progress, as in `gridsim.replicate`.
    """
    warn_unusual(check_scenario(scenario), stacklevel=4)
    integer("replicates", replicates, low=1, high=1_000_000)
    rigid = scenario.workload.rigid
    if scheduler is None:
        scheduler = DEFAULT_SCHEDULERS[rigid]
    scheduler = scheduler_of("scheduler", scheduler, scenario.schedulers)
    if scheduler.rigid != rigid:
        noun = "rigid jobs" if rigid else "bags of tasks"
        raise ScenarioError(f"scheduler must be a Scheduler of {noun}, got {scheduler!r}")
    old = [real("ages", age, low=0, unit="s") for age in ages]
    if old and not isinstance(scheduler, BoardScheduler):
        raise ScenarioError(f"ages requires a scheduler that derives from BoardScheduler, got {scheduler!r}")
    if old != sorted(set(old)):
        raise ScenarioError(f"ages must be strictly ascending, got {old}")
    if not (faults is None or isinstance(faults, Faults)):
        raise ScenarioError(f"faults must be Faults or None, got {faults!r}")
    faults = scenario.faults if faults is None else faults
    if faults is None and not rigid and scheduler.failures:
        faults = Faults.poisson(FAILURES, scenario.seed)
    steps = steps_of(scenario, scheduler, faults, old)
    options["store"] = store_of(options.get("store"))
    values = _run(steps, replicates, MEASURES[rigid], time_limit, **options)
    return Ladder(scenario, tuple(steps), values)


# -- the steps --------------------------------------------------------------------------------------------


def steps_of(
    scenario: Scenario, scheduler: Scheduler, faults: Faults | None, ages: Sequence[float] = ()
) -> list[Step]:
    """Return the steps from a center that knows everything down to `scheduler` on machines that fail.

    Without `faults` no step has failures.

    Parameters
    ----------
    ages
        As in `ladder`.
    """
    if isinstance(scheduler, BoardScheduler):
        own_steps: Sequence[LadderStep] = scheduler.ladder_steps(ages)
    else:
        own_steps = scheduler.ladder_steps()
    if not own_steps:
        raise ScenarioError(
            "scheduler must be decentralized, derive from BoardScheduler or define ladder_steps, got "
            f"{scheduler!r}"
        )
    calm = dataclasses.replace(scenario, faults=None)
    free, first = _free(calm), _first_steps(calm, scheduler)
    steps = first + [
        Step(step.name, step.adds, free if step.is_free else calm, _scheduler_of(step.scheduler))
        for step in own_steps
        if not step.is_beside
    ]
    if faults is None:
        return steps
    failing = dataclasses.replace(scenario, faults=faults)
    comparisons = {first[-1].name: first[-1].scheduler}
    comparisons |= {step.name: _scheduler_of(step.scheduler) for step in own_steps if step.is_beside}
    return [
        *steps,
        Step("failures", _failure_text(faults), failing, steps[-1].scheduler),
        *(
            Step(f"{name}, with failures", _COMPARISON_TEXT, failing, other, beside=True)
            for name, other in comparisons.items()
        ),
    ]


def _first_steps(calm: Scenario, scheduler: Scheduler) -> list[Step]:
    """Return the steps of a center that knows everything.

    For bags of tasks the first one is the lower bound, unless there are more than
    `gridsim.optimization.bounds.BOUND_LIMIT` applications.
    """
    if scheduler.rigid:
        # the central scheduler gets the parameters that it shares with `scheduler`
        shared = {name: getattr(scheduler, name) for name in ("slot", "estimate") if hasattr(scheduler, name)}
        return [Step("whole grid", "the earliest start on all machines", calm, Asap(**shared))]
    central = Step("central, replanning", "whole tasks, and the future is unknown", calm, MinCent())
    if len(calm.workload.realize(calm.platform)) > BOUND_LIMIT:
        return [central]
    return [Step("lower bound", "what no schedule beats", calm, None), central]


def _scheduler_of(scheduler: Scheduler | str) -> Scheduler:
    return make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler


def _free(scenario: Scenario) -> Scenario:
    """Return `scenario` with a network on which messages take no time."""
    network = msgspec.structs.replace(scenario.network, latency=0.0, jitter=0.0, bandwidth=math.inf)
    return dataclasses.replace(scenario, network=network)


def _failure_text(faults: Faults) -> str:
    mean = getattr(faults.recipe, "mean", None)
    kind = faults.recipe.__struct_config__.tag
    return f"machines fail ({kind}{'' if mean is None else f', once in {mean:g} s'})"


# -- the runs ---------------------------------------------------------------------------------------------


def _run(
    steps: Sequence[Step], replicates: int, measures: Sequence[str], time_limit: float | None, **options: Any
) -> Replicates:
    """Run all steps on all replications; return their values, and the lower bounds if they are a step."""
    runs = [step for step in steps if step.scheduler is not None]
    cells, metrics = [], dict.fromkeys(measures if len(runs) == len(steps) else [*measures, "lower_bound"])
    for k in range(replicates):
        variants = {
            id(step.scenario): replication(step.scenario, k) for step in runs
        }  # steps with the same scenario share one variant
        for step in runs:
            assert step.scheduler is not None
            cells.append(Cell(variants[id(step.scenario)], step.scheduler, metrics, time_limit))
    records = collect(cells, fail_fast=True, **options)
    names = [step.name for step in runs]
    values = replicates_of(records, names, tuple(range(replicates)), measures)
    if len(runs) == len(steps):
        return values
    # the first run of each replication has also measured the lower bound of its applications
    bounds = np.array([records[k * len(runs)].values["lower_bound"] for k in range(replicates)])
    columns = {m: bounds if m == "max_stretch" else np.full(replicates, math.nan) for m in measures}
    first = {m: {steps[0].name: column} for m, column in columns.items()}
    return Replicates(values.seeds, first, values.units).joined(values)


# -- showing ----------------------------------------------------------------------------------------------


def _unit(measure: str) -> str:
    """Return the unit in which a measure is shown."""
    return f"1e-8 {UNITS[measure]}" if measure in _FACTORS else UNITS[measure]


def _difference(row: Mapping[str, Any]) -> Estimate:
    """Return the change by a step; numbers so small that they are rounding errors of the means are 0."""
    difference: Estimate = row["difference"]
    least = TOLERANCE * abs(row["mean"].mean)
    mean, low, high = (
        0.0 if abs(number) <= least else number
        for number in (difference.mean, difference.low, difference.high)
    )
    return dataclasses.replace(difference, mean=mean, low=low, high=high)


def _estimate_text(
    estimate: Estimate | None, write: Callable[[float], str] = "{:.4f}".format, factor: float = 1.0
) -> str:
    """Return the mean and its interval, if there is one, as text."""
    if estimate is None:
        return ""
    scaled = estimate.scale(factor)
    middle, low, high = (write(value) for value in (scaled.mean, scaled.low, scaled.high))
    return middle if math.isnan(scaled.low) else f"{middle} [{low}, {high}]"


def _plain(value: float) -> str:
    """Format with four digits, or all digits before the point if there are more."""
    return number_text(value) if abs(value) < 1e4 else f"{value:,.0f}"


def _signed_text(value: float) -> str:
    """Format with a sign and three digits, or all digits before the point if there are more."""
    return f"{value:+.3g}" if abs(value) < 1e3 else f"{value:+,.0f}"
